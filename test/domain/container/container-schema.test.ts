// The closed schema of containers: every case `container.*` of test/cases/security.json, siblings of them,
// and what an ordinary job says.
import { readFileSync } from 'node:fs'
import { containerHandlerSchema, parseImage } from '@belfry/contract'
import { describe, expect, it } from 'vitest'

type Case = {
  readonly id: string
  readonly area: string
  readonly input: { readonly job_spec_fragment?: object }
}
const file = new URL('../../cases/security.json', import.meta.url)
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly Case[] }
const image = 'registry.example.com/team/app:1'
const base = { kind: 'container', image }
const parse = (more: object) => containerHandlerSchema.safeParse({ ...base, ...more })
const pathsOf = (more: object): string[] =>
  (parse(more).error?.issues ?? []).map(({ path, code, ...rest }) =>
    code === 'unrecognized_keys' && 'keys' in rest ? [...path, ...rest.keys].join('/') : path.join('/'),
  )

describe('what is not of the schema', () => {
  const listed = cases.filter(({ area }) => area === 'container')
  it.each(listed.map(({ id, input }) => [id, input.job_spec_fragment ?? {}] as const))(
    '%s is refused',
    (_id, fragment) => {
      const paths = pathsOf(fragment)
      expect(paths.length).toBeGreaterThan(0)
      // the field at fault is named
      expect(Object.keys(fragment).some((key) => paths.some((path) => path.startsWith(key)))).toBe(true)
    },
  )

  it.each([
    { privileged: true },
    { hostConfig: {} },
    { volumes: { '/': {} } },
    { tmpfs: { '/proc': 1 } },
    { tmpfs: { '/etc/x': 1 } },
    { tmpfs: { '/belfry': 1 } },
    { tmpfs: { '/a/../etc': 1 } },
    { tmpfs: { '/a//b': 1 } },
    { tmpfs: { '/': 1 } },
    { tmpfs: { relative: 1 } },
    { tmpfs: { '/tmp': 0 } },
    { tmpfs: { '/tmp,size=9g': 1 } },
    { tmpfs: { '/tmp': 300 } },
    { limits: { memoryMb: 0 } },
    { limits: { pids: -1 } },
    { limits: { cpuMillis: 0.5 } },
    { limits: { memorySwapMb: 1 } },
    { user: '0:0' },
    { user: '1000' },
    { user: '1000:0' },
    { user: '00:1' },
    { user: 'nobody:nogroup' },
    { user: '4294967296:1' },
    { user: '1000:1000:0' },
    { workingDir: '../etc' },
    { workingDir: 'tmp' },
    { env: { BELFRY_RUN_ID: 'x' } },
    { env: { http_proxy: 'x' } },
    { env: { NO_PROXY: '*' } },
    { env: { A: '{{secret.x}} {{env.B}}' } },
    { env: { A: 'x\u0000y' } },
    { env: { 'A\n': 'b' } },
    { env: { '': 'b' } },
    { env: { A: { secret: 'x', value: 'y' } } },
    { env: [] },
    { command: [] },
    { command: [''] },
    { command: ['a\u0000b'] },
    { command: ['x'.repeat(40_000)] },
    { command: Array.from({ length: 300 }, () => 'x') },
    { entrypoint: 'sh' },
    { egress: 'host', limits: { pids: 0 } },
    { stopGraceMs: 60_000 },
    { noRetryExitCodes: [0] },
    { noRetryExitCodes: [2, 2] },
    { noRetryExitCodes: [256] },
    { skippedExitCode: 2, noRetryExitCodes: [2] },
    { input: 'socket' },
    { result: '/etc/passwd' },
  ])('%j is refused', (more) => {
    expect(parse(more).success).toBe(false)
  })

  it.each([
    'busybox',
    'library/busybox:1',
    'http://registry.example.com/app',
    'registry.example.com/App',
    'registry.example.com/app:',
    'registry.example.com/app@sha256:abc',
    'registry.example.com/app@sha512:' + 'a'.repeat(128),
    'registry.example.com/../app',
    'registry.example.com//app',
    'registry.example.com/app:1 --privileged',
    'user:pw@registry.example.com/app',
    '10.0.0.1/app:1',
    '10.0.0.1:5000/app:1',
    '127.1:5000/app',
    '2130706433:5000/app',
    '0x7f000001:5000/app',
    '[::1]:5000/app',
    'metadata.google.internal/app',
    'registry.example.com/app:1\n',
    '-registry.example.com/app',
    '',
  ])('%j is no image', (text) => {
    expect(pathsOf({ image: text })).toContain('image')
  })
})

describe('what an ordinary job says', () => {
  it('is taken, with cautious defaults', () => {
    expect(containerHandlerSchema.parse(base)).toEqual({
      ...base,
      env: {},
      user: '65534:65534',
      tmpfs: { '/tmp': 16 },
      limits: { memoryMb: 256, cpuMillis: 500, pids: 64, openFiles: 1024 },
      egress: 'none',
      input: 'stdin',
      result: 'last_line',
      noRetryExitCodes: [],
      stopGraceMs: 3_000,
    })
  })

  it.each([
    { command: ['sh', '-c', 'echo "a\tb"\nexit 1'] },
    { env: { PATH: '/usr/bin', PW: { secret: 'db' }, RUN: '{{run.id}}', S: 'a={{secrets.x}}' } },
    { user: '1000:1000', workingDir: '/srv/app', tmpfs: { '/work': 100, '/tmp': 8 } },
    { egress: 'internet', input: 'file', result: 'file', skippedExitCode: 99, noRetryExitCodes: [1, 2] },
    { image: `registry.example.com:5000/a/b-c__d.e:v1.2@sha256:${'0'.repeat(64)}` },
    { image: 'localhost/app:1' },
    { image: 'docker.io/library/busybox' },
  ])('%j is taken', (more) => {
    expect(parse(more).error).toBeUndefined()
  })

  it('an image is read by its parts', () => {
    const digest = `sha256:${'b'.repeat(64)}`
    expect(parseImage(`r.example.com:5000/a/b:1@${digest}`)).toEqual({
      registry: 'r.example.com:5000',
      repository: 'a/b',
      tag: '1',
      digest,
    })
  })
})
