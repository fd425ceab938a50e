// `npm run docs`: writes the generated pages of docs/reference. Which and how: lib/reference-pages.ts. With `--only TEXT`
// only those whose name holds TEXT.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { referencePages } from './lib/reference-pages.ts'

const at = process.argv.indexOf('--only')
const only = at < 0 ? '' : (process.argv[at + 1] ?? '')

for (const { file, render } of referencePages) {
  if (!file.includes(only)) continue
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, await render())
  console.log(`wrote ${file}`)
}
