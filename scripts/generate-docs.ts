// `npm run docs`: writes the generated pages of docs/reference. Which and how: lib/reference-pages.ts, and
// lib/schema-page.ts for the one that needs a database. With `--only TEXT` only those whose name holds TEXT.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { referencePages } from './lib/reference-pages.ts'
import { schemaPage } from './lib/schema-page.ts'

const at = process.argv.indexOf('--only')
const only = at < 0 ? '' : (process.argv[at + 1] ?? '')

for (const { file, render } of [...referencePages, schemaPage]) {
  if (!file.includes(only)) continue
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, await render())
  console.log(`wrote ${file}`)
}
