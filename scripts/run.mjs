// Starts one of the repository's TypeScript scripts: `node scripts/run.mjs scripts/build.ts [arguments]`.
// They need Node 22.18 or newer. On Linux `npm ci` brings Node 24 along, and npm scripts find it in
// node_modules/.bin. When this file is started by an older Node all the same, it hands over to that one, and
// where there is none it says what to do. Plain JavaScript that old Node versions can run.
import { spawnSync } from 'node:child_process'
import { delimiter, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { localNode } from './lib/local-node.mjs'

const [script, ...args] = process.argv.slice(2)
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const recentEnough = major > 22 || (major === 22 && minor >= 18)
const other = recentEnough ? undefined : localNode()

// The tools that the scripts start are the repository's own, also when npm is not what started this file.
const tools = fileURLToPath(new URL('../node_modules/.bin', import.meta.url))
process.env['PATH'] = [tools, process.env['PATH']].join(delimiter)

if (script === undefined) {
  process.stderr.write('usage: node scripts/run.mjs <script.ts> [arguments]\n')
  process.exit(2)
} else if (recentEnough) {
  await import(new URL('./lib/from-source.mjs', import.meta.url).href)
  const file = resolve(script)
  process.argv = [process.argv[0] ?? 'node', file, ...args]
  await import(pathToFileURL(file).href)
} else if (other !== undefined) {
  const child = spawnSync(other, process.argv.slice(1), { stdio: 'inherit' })
  process.exit(child.status ?? 1)
} else {
  process.stderr.write(
    `Belfry's scripts need Node 22.18 or newer and this is ${process.version}. On Linux (x64, arm64) ` +
      '`npm ci` brings Node 24 along: run it, without --omit=optional. Elsewhere install Node 24.\n',
  )
  process.exit(1)
}
