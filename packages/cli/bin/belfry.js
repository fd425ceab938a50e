#!/usr/bin/env node
// The `belfry` command. In the published package it starts the compiled dist/main.js; in a clone, where src/
// is present, it starts src/main.ts so that nothing has to be built first. Plain JavaScript that old Node
// versions can still parse, so that they get an answer instead of a stack trace.
import { existsSync } from 'node:fs'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 18)) {
  const fix = 'install Node 24 (https://nodejs.org), or in a clone run `npm ci` and then `npx belfry`'
  process.stderr.write(`belfry needs Node 22.18 or newer and this is ${process.version}: ${fix}\n`)
  process.exit(1)
}

const source = new URL('../src/main.ts', import.meta.url)
if (existsSync(source)) {
  await import(new URL('../../../scripts/lib/from-source.mjs', import.meta.url).href)
  await import(source.href)
} else {
  await import(new URL('../dist/main.js', import.meta.url).href)
}
