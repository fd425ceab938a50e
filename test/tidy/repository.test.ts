// Holds the repository to its own rules, one test a rule. A failure lists every place as path:line, ready to
// click.
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readRepository } from './lib/source-file.ts'
import { allRules } from './rules/all-rules.ts'

const files = readRepository(fileURLToPath(new URL('../..', import.meta.url)))

test('the repository is read', () => {
  const paths = files.map((file) => file.path)
  expect(paths).toContain('package.json')
  expect(paths).toContain('packages/contract/src/index.ts')
  expect(paths.some((path) => path.includes('node_modules'))).toBe(false)
})

test.each(allRules)('$name', (rule) => {
  const places = rule.check(files).map(({ path, line, message }) => `${path}:${line} ${message}`)
  expect(places).toEqual([])
})
