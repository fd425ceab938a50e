// Containers over the API: the closed schema, the policy of the server and of one tenant, and what answers
// show.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApi, type TestApi } from '../support/api.ts'
import { openPolicy } from '../support/container-rig.ts'

let t: TestApi
let platform: string
const digest = `sha256:${'a'.repeat(64)}`
const image = 'registry.example.com/team/app:1'
const container = (more: object = {}) => ({ kind: 'container', image, ...more })
let count = 0
const create = (handler: object) => t.call('POST', '/v1/jobs', { body: { name: `job-${++count}`, handler } })

beforeAll(async () => {
  const lists = new Map([['partners', ['api.example.com']]])
  const { egress } = openPolicy()
  const containers = {
    ...openPolicy(),
    images: ['registry.example.com/team/*'],
    egress: { ...egress, lists },
  }
  t = await startTestApi({ containers }, [])
  platform = await t.keyFor('operator', ['platform'])
})
afterAll(() => t.close())

test('a job with a container is kept and shown with all that it does not say', async () => {
  const made = await create(container({ command: ['report', '--all'], env: { A: 'run {{run.id}}' } }))
  expect(made.status).toBe(201)
  expect(made.body.handler).toEqual({
    kind: 'container',
    image,
    command: ['report', '--all'],
    env: { A: 'run {{run.id}}' },
    user: '65534:65534',
    tmpfs: { '/tmp': 16 },
    limits: { memoryMb: 256, cpuMillis: 500, pids: 64, openFiles: 1024 },
    egress: 'none',
    input: 'stdin',
    result: 'last_line',
    noRetryExitCodes: [],
    stopGraceMs: 3000,
  })
  const shown = await t.call('GET', `/v1/jobs/${made.body.id}`)
  expect(shown.body.handler).toEqual(made.body.handler)
  const { body } = await t.call('GET', '/v1/jobs')
  expect(body.items.find(({ id }) => id === made.body.id)?.handler).toEqual({ kind: 'container', image })
})

test.each([
  [{ image: 'docker.io/library/busybox:1' }, '/handler/image'],
  [{ limits: { memoryMb: 100_000 } }, '/handler/limits/memoryMb'],
  [{ limits: { cpuMillis: 100_000 } }, '/handler/limits/cpuMillis'],
  [{ limits: { pids: 10_000 } }, '/handler/limits/pids'],
  [{ egress: 'nowhere' }, '/handler/egress'],
])('what the policy does not allow is refused when it is saved: %j', async (more, pointer) => {
  const refused = await create(container(more))
  expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_target', errors: [{ pointer }] } })
})

test('the policy holds for schedules with a handler and for tasks of workflows too', async () => {
  const bad = container({ image: 'docker.io/library/busybox:1' })
  const schedule = await t.call('POST', '/v1/schedules', { body: { name: 's', every: '1h', handler: bad } })
  expect(schedule.body).toMatchObject({ code: 'invalid_target', errors: [{ pointer: '/handler/image' }] })
  const workflow = { name: 'w', tasks: [{ id: 'a', handler: bad }] }
  const refused = await t.call('POST', '/v1/workflows', { body: workflow })
  expect(refused.body).toMatchObject({
    code: 'invalid_target',
    errors: [{ pointer: '/tasks/0/handler/image' }],
  })
  const good = { name: 'w', tasks: [{ id: 'a', handler: container() }] }
  expect((await t.call('POST', '/v1/workflows', { body: good })).body.name).toBe('w')
})

test('one tenant may have a policy of its own, which its operator alone sets', async () => {
  const path = '/v1/tenants/acme/container-policy'
  const wanted = { images: ['registry.example.com/acme/*'], digestsRequired: true, egress: [], maxPids: 32 }
  expect((await t.call('PATCH', path, { body: wanted })).status).toBe(403)
  const set = await t.call('PATCH', path, { key: platform, body: wanted })
  expect(set).toMatchObject({
    status: 200,
    body: { ...wanted, ofTenant: ['images', 'digestsRequired', 'egress', 'maxPids'] },
  })
  expect((await t.call('GET', '/v1/container-policy')).body).toEqual(set.body)
  expect((await t.call('GET', path, { key: platform })).body).toEqual(set.body)
  const mine = 'registry.example.com/acme/app'
  expect((await create(container({ limits: { pids: 32 } }))).body.errors[0]?.pointer).toBe('/handler/image')
  expect((await create(container({ image: `${mine}:1`, limits: { pids: 32 } }))).body.detail).toContain(
    'digest',
  )
  const pinned = { image: `${mine}@${digest}`, limits: { pids: 32 } }
  expect((await create(container(pinned))).status).toBe(201)
  expect((await create(container({ ...pinned, egress: 'internet' }))).body.errors[0]?.pointer).toBe(
    '/handler/egress',
  )
  const reset = { images: null, digestsRequired: null, egress: null, maxPids: null }
  const back = await t.call('PATCH', path, { key: platform, body: reset })
  expect(back.body).toMatchObject({ images: ['registry.example.com/team/*'], ofTenant: [] })
  const unknown = await t.call('PATCH', '/v1/tenants/nobody/container-policy', { key: platform, body: reset })
  expect(unknown.status).toBe(404)
})

test('a server that was told nothing of containers allows none, and says which setting does', async () => {
  const bare = await startTestApi({}, [])
  const refused = await bare.call('POST', '/v1/jobs', { body: { name: 'a', handler: container() } })
  expect(refused.body.detail).toContain('containerImages')
  await bare.close()
})
