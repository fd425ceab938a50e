// Steps of a container that something overtakes, each held at its worst moment by an engine or a connection
// that the test answers for.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { runContainer } from '../../packages/server/src/adapters/handlers/container/container-run.ts'
import { createEgressProxy } from '../../packages/server/src/adapters/handlers/container/egress-proxy.ts'
import type {
  EngineCall,
  EngineClient,
} from '../../packages/server/src/adapters/handlers/container/engine-client.ts'
import { openDoor } from '../../packages/server/src/adapters/handlers/container/network-door.ts'
import type { ContainerPlan, ContainerSink } from '../../packages/server/src/ports/container-backend.ts'
import type { TunnelOutcome } from '../../packages/server/src/ports/tunnels.ts'
import { realClock } from '../support/real-clock.ts'

const plan: ContainerPlan = {
  runId: '019ad0c1-7f3e-7c63-9a52-000000000001',
  tenantId: '019ad0c1-7f3e-7c63-9a52-00000000bbbb',
  attempt: 1,
  leaseEpoch: 1,
  sessionId: '019ad0c1-7f3e-7c63-9a52-00000000aaaa',
  image: 'localhost/x:1',
  pull: false,
  entrypoint: undefined,
  command: undefined,
  env: [],
  uid: 65_534,
  gid: 65_534,
  workingDir: undefined,
  tmpfs: [],
  limits: { memoryMb: 16, cpuMillis: 100, pids: 8, openFiles: 64 },
  egressName: 'internet',
  egress: undefined,
  stdin: undefined,
  inputFile: '{}',
  resultFileBytes: undefined,
  stopGraceMs: 0,
}

const sink: ContainerSink = { output: () => {}, note: () => {}, denied: () => {} }
const settings = { installation: 'test', runtime: undefined, pidsOfUser: 64 }
const rules = { hostDenied: () => undefined, addressDenied: () => undefined }

/** Says what it is asked, by method and path. */
function engineOf(answer: (asked: string, call?: EngineCall) => unknown) {
  const asked: string[] = []
  const unused = (): never => {
    throw new Error('not asked for here')
  }
  const client: EngineClient = {
    async call(method, path, call) {
      asked.push(`${method} ${path}`)
      return answer(`${method} ${path}`, call)
    },
    open: unused,
    attach: unused,
    close: () => {},
  }
  return { client, asked }
}

const made = (asked: readonly string[]) => asked.filter((each) => each.startsWith('POST'))

test.each([
  ['its image was looked at', 'GET /images/localhost/x:1/json', []],
  ['its volume was made', 'POST /volumes/create', ['POST /volumes/create']],
  ['its network was opened', 'network', ['POST /volumes/create']],
])('an attempt that is cut off while %s creates nothing more', async (_, moment, created) => {
  const cut = new AbortController()
  const { client, asked } = engineOf((each) => {
    if (each === moment) cut.abort('lease_lost')
    return {}
  })
  let opened = 0
  const openNetwork = async () => {
    if (moment === 'network') cut.abort('lease_lost')
    opened += 1
    return { mode: 'none', env: [], close: async () => void (opened -= 1) }
  }
  const parts = { engine: client, clock: realClock, settings, openNetwork, volumeOptions: {} }
  const end = await runContainer(parts, plan, sink, cut.signal)
  expect(end).toMatchObject({ kind: 'failed', code: 'container_not_started', retryable: true })
  expect(made(asked)).toEqual(created)
  expect(opened).toBe(0)
})

test.each([
  ['has ended', { Id: 'h', State: { Pid: 0, Running: false } }, /ended at once/],
  ['is another one', { Id: 'h', State: { Pid: 1, Running: true } }, /not process/],
])('a network is not entered whose holder %s once it is open', async (_, later, why) => {
  // a process that looks like a holder, in the network of this machine
  const held = spawn('/bin/cat', { argv0: '/hold', stdio: ['pipe', 'ignore', 'ignore'] })
  await once(held, 'spawn')
  onTestFinished(() => void held.kill())
  let looks = 0
  const { client, asked } = engineOf((each) => {
    if (!each.startsWith('GET /containers/')) return {}
    looks += 1
    return looks === 1 ? { Id: 'h', State: { Pid: held.pid, Running: true } } : later
  })
  const tunnels = { open: async () => ({ ok: false, code: 'failed', message: '' }) as const }
  await expect(openDoor({ engine: client, settings, tunnels }, plan, rules, sink)).rejects.toThrow(why)
  expect(asked.at(-1)).toBe(`DELETE /containers/belfry-${plan.runId}-1-network`)
})

/** A proxy whose one connection to a target comes when the test says so. */
async function slowProxy() {
  const asked = Promise.withResolvers<void>()
  const outcome = Promise.withResolvers<TunnelOutcome>()
  const open = (): Promise<TunnelOutcome> => {
    asked.resolve()
    return outcome.promise
  }
  const proxy = createEgressProxy({ open }, rules, () => {})
  const accepted = Promise.withResolvers<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    proxy.accept(socket)
    accepted.resolve(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    proxy.close()
    server.close()
  })
  const client = connect((server.address() as { port: number }).port, '127.0.0.1')
  client.on('error', () => {})
  const target = new PassThrough()
  return {
    client,
    proxy,
    target,
    asked: asked.promise,
    accepted: accepted.promise,
    connected: () => outcome.resolve({ ok: true, socket: target }),
  }
}

test.each([
  ['GET', 'GET http://a.test/ HTTP/1.1\r\nhost: a.test\r\n\r\n'],
  ['POST', 'POST http://a.test/ HTTP/1.1\r\nhost: a.test\r\ncontent-length: 9\r\n\r\nabc'],
  ['CONNECT', 'CONNECT a.test:443 HTTP/1.1\r\n\r\n'],
])('a target is let go whose client has hung up meanwhile: %s', async (_, head) => {
  const { client, target, asked, accepted, connected } = await slowProxy()
  client.write(head)
  await asked
  const gone = Promise.withResolvers<void>()
  const socket = await accepted
  socket.on('close', gone.resolve)
  client.resetAndDestroy()
  await gone.promise
  connected()
  await expect.poll(() => target.destroyed).toBe(true)
})

test('a target is let go that comes when the run is over', async () => {
  const { client, proxy, target, asked, connected } = await slowProxy()
  client.write('CONNECT a.test:443 HTTP/1.1\r\n\r\n')
  await asked
  connected()
  proxy.close()
  await expect.poll(() => target.destroyed).toBe(true)
})
