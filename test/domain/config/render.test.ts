// The reference page of the settings: every setting with its variable, and the same text on every machine.
import { afterEach, expect, it, vi } from 'vitest'
import { renderConfiguration } from '../../../packages/server/src/config/render.ts'
import { configKeys, environmentName } from '../../../packages/server/src/config/schema.ts'

afterEach(() => vi.unstubAllEnvs())

const rows = () =>
  renderConfiguration()
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.slice(2, -2).split(' | '))

it('has one row a setting: its name, its variable, its default and what it means', () => {
  expect(rows().map(([name, variable]) => [name, variable])).toEqual(
    configKeys.map((key) => [`\`${key}\``, `\`${environmentName(key)}\``]),
  )
  expect(rows().filter((cells) => cells.length !== 4 || (cells[3] ?? '').length < 10)).toEqual([])
})

it('shows defaults as they are written in a variable', () => {
  const defaults = new Map(rows().map(([name, , value]) => [name, value]))
  expect(defaults.get('`roles`')).toBe('`api,scheduler,worker,resolver`')
  expect(defaults.get('`egressPorts`')).toBe('`80,443,8080,8443`')
  expect(defaults.get('`egressAllow`')).toBe('none')
  expect(defaults.get('`databaseUrl`')).toBe('not set')
  expect(defaults.get('`migrateAtStart`')).toBe('`false`')
})

it('does not depend on the machine', () => {
  const here = renderConfiguration()
  vi.stubEnv('XDG_DATA_HOME', '/somewhere/else')
  vi.stubEnv('HOME', '/somewhere')
  expect(renderConfiguration()).toBe(here)
})
