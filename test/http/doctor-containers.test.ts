// `belfry doctor` and the container engine: what is off is named, with what to do.
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { examineMachine } from '../../packages/server/src/compose/doctor.ts'
import { examineContainers } from '../../packages/server/src/compose/doctor-containers.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'

let folder: string
let server: Server | undefined
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'belfry-doctor-'))
})
afterEach(() => server?.close())
afterAll(() => rmSync(folder, { recursive: true }))

let count = 0
async function examine(version: object | undefined, env: Record<string, string> = {}) {
  const socket = join(folder, `engine-${++count}.sock`)
  if (version !== undefined) {
    server = createServer((_request, response) => response.end(JSON.stringify(version))).listen(socket)
    await once(server, 'listening')
  }
  const engine = `unix://${socket}`
  const { config } = loadConfig({ env: { BELFRY_CONTAINER_ENGINE: engine, ...env } })
  return examineContainers(config, engine)
}

const docker = (runc: string) => ({
  Version: '28.0.1',
  ApiVersion: '1.48',
  Components: [
    { Name: 'Engine', Version: '28.0.1' },
    { Name: 'runc', Version: runc },
  ],
})

it.each([
  ['1.1.15', 'warn'],
  ['1.2.7', 'warn'],
  ['1.2.8', 'ok'],
  ['1.3.2', 'warn'],
  ['1.3.3', 'ok'],
  ['1.4.0', 'ok'],
  ['2.0.0', 'ok'],
])('runc %s: %s', async (runc, status) => {
  const found = await examine(docker(runc), { BELFRY_CONTAINER_IMAGES: 'registry.example.com/team/*' })
  expect(found).toMatchObject([
    { name: 'containers', status: 'ok', message: expect.stringContaining('28.0.1') as unknown },
    { name: 'container_runtime', status },
    { name: 'container_images', status: 'ok' },
  ])
})

it('no engine, an old one, no images', async () => {
  expect(await examine(undefined)).toMatchObject([{ name: 'containers', status: 'fail' }])
  const old = await examine({ Version: '18.09', ApiVersion: '1.39', Components: [] })
  expect(old).toMatchObject([
    { status: 'fail' },
    { status: 'ok' },
    { name: 'container_images', status: 'warn' },
  ])
})

it('classes of egress need what a worker may not have', async () => {
  const env = {
    BELFRY_CONTAINER_INTERNET: 'true',
    BELFRY_CONTAINER_EGRESS_LISTS: 'partners=a.example.com|*.b.test',
  }
  const found = await examine(docker('1.3.3'), env)
  const expected = process.getuid?.() === 0 ? 'ok' : 'fail'
  expect(found.at(-1)).toMatchObject({ name: 'container_egress', status: expected })
  expect(found.at(-1)?.message).toContain('internet, partners')
})

it('is part of the look at the machine', async () => {
  const found = await examineMachine({
    flags: {},
    env: { BELFRY_CONTAINER_ENGINE: 'unix:///nowhere.sock', DATABASE_URL: 'postgres://a@127.0.0.1:1/b' },
  })
  expect(found.some(({ name }) => name === 'containers')).toBe(true)
})
