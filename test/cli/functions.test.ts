// The commands around functions: keys bound to queues, workers that are alive, lines that functions logged.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type CliRig, startCliRig } from './support/cli.ts'
import { problem } from './support/contract-server.ts'

let rig: CliRig
beforeEach(async () => {
  rig = await startCliRig()
})
afterEach(() => rig.close())

const id = '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f'
const at = '2026-11-29T11:59:00.000Z'

describe('run logs', () => {
  const line = (number: number, message: string, fields?: unknown) => {
    return { number, at, level: 'info', message, ...(fields === undefined ? {} : { fields }) }
  }
  const page = (lines: readonly ReturnType<typeof line>[], more = {}) => {
    const lastLine = lines.at(-1)?.number ?? -1
    return { attempt: 1, lines, lastLine, more: false, full: false, logCapBytes: 262_144, ...more }
  }

  it('--lines prints what the function logged, page by page, and where it ends', async () => {
    const pages = [
      page([line(0, 'begun')], { more: true }),
      page([line(1, 'done', { n: 2 })], { full: true }),
    ]
    rig.server.intercept = () => ({ status: 200, body: pages.shift() })
    const { out, err, code } = await rig.run(['run', 'logs', id, '--lines'])
    expect(code).toBe(0)
    expect(out).toBe('2026-11-29 11:59:00 info  begun\n2026-11-29 11:59:00 info  done {"n":2}\n')
    expect(err).toContain('it is full (262144 bytes)')
    expect(rig.server.seen.map((seen) => seen.query['after'])).toEqual(['-1', '0'])
  })

  it('-f goes on until the run has ended, also into the next attempt', async () => {
    // a server without streams of events
    const none = { status: 404, body: problem('not_found', 'There is no such path.') }
    const runs = [
      { id, state: 'running', attempts: 1 },
      { id, state: 'succeeded', attempts: 2 },
    ]
    const pages = [
      page([line(0, 'first')]),
      page([], { lastLine: 0 }),
      page([line(0, 'second')], { attempt: 2 }),
    ]
    rig.server.intercept = ({ route }) => {
      if (route === 'runLogStream') return none
      return { status: 200, body: route === 'runGet' ? runs.shift() : pages.shift() }
    }
    const { out } = await rig.run(['run', 'logs', id, '-f', '-o', 'jsonl'])
    expect(out.split('\n').filter((text) => text !== '')).toHaveLength(2)
    expect(out).toContain('second')
    expect([runs, pages]).toEqual([[], []])
  })

  it('says that nothing was logged', async () => {
    rig.server.intercept = () => ({ status: 200, body: page([], { attempt: null }) })
    expect((await rig.run(['run', 'logs', id, '--lines'])).err).toContain('Nothing was logged.')
  })
})

it('worker list shows what each serves, and what it holds', async () => {
  const times = { startedAt: at, heartbeatAt: at, expiresAt: at }
  const worker = {
    id,
    host: 'box',
    version: '',
    queues: ['mail'],
    functions: ['mail.send'],
    slots: 10,
    held: 3,
  }
  rig.server.intercept = () => ({ status: 200, body: { items: [{ ...worker, ...times }], nextCursor: null } })
  const { out } = await rig.run(['worker', 'list'])
  expect(out).toMatch(/box\s+mail\s+mail\.send\s+3\/10/)
})

it('key create binds a key for workers to queues', async () => {
  await rig.run(['key', 'create', 'mailer', '--scope', 'worker', '--queue', 'mail,bulk', '--queue', 'mail'])
  expect(rig.server.seen.at(-1)?.body).toEqual({
    name: 'mailer',
    scopes: ['worker'],
    queues: ['mail', 'bulk'],
  })
})
