// Where the zone data comes from: the newer of a system tree and the bundle, all of it read at once, and
// names that cannot leave the tree. Also the suggestions for names that do not exist.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import {
  BUNDLED_ZONES_BASE64,
  BUNDLED_ZONES_VERSION,
} from '../../../packages/server/src/adapters/zones/bundled-zones.generated.ts'
import { packZones, unpackZones } from '../../../packages/server/src/adapters/zones/zone-bundle.ts'
import { readZoneVersion } from '../../../packages/server/src/adapters/zones/zone-directory.ts'
import { openZoneSource } from '../../../packages/server/src/adapters/zones/zone-source.ts'
import { compareZoneVersions } from '../../../packages/server/src/domain/zone/zone-data.ts'
import { resolveZone, suggestZones } from '../../../packages/server/src/domain/zone/zone-lookup.ts'

const bundle = unpackZones(BUNDLED_ZONES_BASE64)
const made: string[] = []

afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true })
})

function tree(version: string | undefined, names: readonly string[]): string {
  const root = mkdtempSync(join(tmpdir(), 'belfry-zones-'))
  made.push(root)
  for (const name of names) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), bundle.files.get(name) ?? bundle.files.get('UTC') ?? '')
  }
  if (version !== undefined)
    writeFileSync(join(root, 'tzdata.zi'), `# version ${version}\nR d 1916 o - Jun 14 23s 1 S\n`)
  return root
}

describe('which data is used', () => {
  test('without a system tree: the bundle', () => {
    const source = openZoneSource({ directories: ['/nowhere/at/all'] })
    expect(source).toMatchObject({ source: 'bundled', dataVersion: BUNDLED_ZONES_VERSION })
    expect(source.names().length).toBeGreaterThan(590)
    expect(source.get('US/Pacific')?.offsetAt(0)).toBe(source.get('America/Los_Angeles')?.offsetAt(0))
  })

  test('a newer or equal system tree wins, an older one or one without a version does not', () => {
    const names = ['UTC', 'Europe/Berlin', 'America/Argentina/Ushuaia']
    for (const version of ['2099a', BUNDLED_ZONES_VERSION]) {
      const source = openZoneSource({ directories: [tree(version, names)] })
      expect(source).toMatchObject({ source: 'system', dataVersion: version })
      expect(source.names()).toEqual([...names].sort())
    }
    expect(openZoneSource({ directories: [tree('2020a', names)] }).source).toBe('bundled')
    expect(openZoneSource({ directories: [tree(undefined, names)] }).source).toBe('bundled')
    expect(openZoneSource({ directories: [tree('2099a', ['Europe/Berlin'])] }).source).toBe('bundled')
  })

  test('only zones are taken from a tree, and links are followed', () => {
    const root = tree('2099a', ['UTC', 'Etc/UTC', 'posix/UTC', 'right/UTC', 'localtime', 'Factory'])
    writeFileSync(join(root, 'Zone.tab'), 'a table')
    writeFileSync(join(root, 'NotAZone'), 'a table')
    symlinkSync('UTC', join(root, 'Zulu'))
    symlinkSync('nowhere', join(root, 'Dangling'))
    symlinkSync('.', join(root, 'Loop'))
    const source = openZoneSource({ directories: [root] })
    expect(source.names()).toEqual(['Etc/UTC', 'UTC', 'Zulu'])
    expect(source.get('../UTC')).toBe(undefined)
    expect(source.get('__proto__')).toBe(undefined)
  })

  test('a damaged file counts as absent', () => {
    const root = tree('2099a', ['UTC', 'Europe/Berlin'])
    writeFileSync(join(root, 'Europe/Berlin'), 'TZif2 but nothing else')
    const source = openZoneSource({ directories: [root] })
    expect(source.get('UTC')).toBeDefined()
    expect(source.get('Europe/Berlin')).toBe(undefined)
  })

  test('the version is also read where systems keep it in +VERSION', () => {
    const root = tree(undefined, ['UTC'])
    writeFileSync(join(root, '+VERSION'), '2031c\n')
    expect(readZoneVersion(root)).toBe('2031c')
  })

  test('releases are ordered', () => {
    const ordered = ['2025b', '2025c', '2026a', '2026z', '2026za', '2027a']
    expect([...ordered].reverse().sort(compareZoneVersions)).toEqual(ordered)
    expect(compareZoneVersions('2026a', '2026a')).toBe(0)
  })

  test('packing and unpacking keeps every file', () => {
    const again = unpackZones(packZones(bundle))
    expect(again.version).toBe(BUNDLED_ZONES_VERSION)
    expect([...again.files.keys()].sort()).toEqual([...bundle.files.keys()].sort())
    for (const [name, bytes] of bundle.files)
      expect(Buffer.from(again.files.get(name) ?? '').equals(bytes), name).toBe(true)
  })
})

describe('names that do not exist', () => {
  const zones = openZoneSource({ directories: [] })

  test.each([
    ['Europe/Berln', 'Europe/Berlin'],
    ['europe/berlin', 'Europe/Berlin'],
    ['Berlin', 'Europe/Berlin'],
    ['America/NewYork', 'America/New_York'],
    ['new york', 'America/New_York'],
    ['Asia/Kolkatta', 'Asia/Kolkata'],
    ['utc', 'UTC'],
    ['+02:00', 'Etc/GMT-2'],
    ['UTC-5', 'Etc/GMT+5'],
  ])('%s: did you mean %s?', (name, meant) => {
    expect(suggestZones(zones, name)[0]).toContain(meant)
    const result = resolveZone(zones, name)
    expect(result.ok ? '' : result.error).toContain(`did you mean ${meant}`)
  })

  test.each(['Mars/Olympus', '', 'x'.repeat(10_000), '../../etc/passwd', 'UTC\u0000'])(
    '%j: no zone',
    (name) => {
      const result = resolveZone(zones, name)
      const words = result.ok ? 'a zone' : result.error
      expect(words).toContain('there is no time zone')
      expect(words.length).toBeLessThan(300)
    },
  )
})
