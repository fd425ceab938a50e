/**
 * The network of a container that may reach something: one without any interface but its own loopback, and on
 * that a single port, at which our proxy answers. There is no route to deny and no rule to forget: what does
 * not go through the proxy goes nowhere.
 *
 *   1. a holder (holder-image.ts) starts without a network: an empty one that lives as long as it does
 *   2. a short process of ours enters that network (nsenter), opens the port and hands it to this process;
 *      the network is held open before it is looked whose it is: numbers of processes are given anew
 *   3. the container joins the holder's network, and finds the port open when it begins
 *
 * It needs the engine on this machine and the right to enter networks of others (root, or CAP_SYS_ADMIN).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type FileHandle, open, readFile } from 'node:fs/promises'
import type { Server, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { TunnelRules } from '../../../domain/container/egress-class.ts'
import type { ContainerPlan, ContainerSink } from '../../../ports/container-backend.ts'
import type { Tunnels } from '../../../ports/tunnels.ts'
import type { RunNetwork } from './container-run.ts'
import { type CreateSettings, holderCall, holderName } from './create-call.ts'
import { createEgressProxy } from './egress-proxy.ts'
import { type EngineClient, EngineError } from './engine-client.ts'
import { removeItem } from './engine-items.ts'
import { ensureHolderImage, holderCommand, holderImage } from './holder-image.ts'

const proxyPort = 3128
const enterMs = 10_000

export interface DoorParts {
  readonly engine: EngineClient
  readonly settings: CreateSettings
  readonly tunnels: Tunnels
}

export async function openDoor(
  { engine, settings, tunnels }: DoorParts,
  plan: ContainerPlan,
  rules: TunnelRules,
  sink: Pick<ContainerSink, 'denied'>,
): Promise<RunNetwork> {
  await ensureHolderImage(engine, process.arch)
  const name = holderName(plan)
  const proxy = createEgressProxy(tunnels, rules, sink.denied)
  let server: Server | undefined
  const close = async (): Promise<void> => {
    server?.close()
    proxy.close()
    await removeItem(engine, { kind: 'container', name })
  }
  try {
    await engine.call('POST', '/containers/create', {
      query: { name },
      body: holderCall(plan, settings, holderImage),
    })
    await engine.call('POST', `/containers/${name}/start`)
    const { id, network } = await enterable(engine, name)
    try {
      server = await listenInside(network)
    } finally {
      await network.close()
    }
    server.on('connection', (socket: Socket) => {
      // who has asked for all that it wants may still wait for the answer
      socket.allowHalfOpen = true
      proxy.accept(socket)
    })
    return { mode: `container:${id}`, env: proxyVariables, close }
  } catch (error) {
    await close().catch(() => undefined)
    throw error
  }
}

const proxyUrl = `http://127.0.0.1:${proxyPort}`
/** Programs look for these in either case. */
const proxyVariables = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].map(
  (name) => [name, proxyUrl] as const,
)

interface Holder {
  readonly id: string
  /** Of its process on this machine. */
  readonly pid: number
}

async function holderOn(engine: EngineClient, name: string): Promise<Holder> {
  const found = (await engine.call('GET', `/containers/${name}/json`)) as {
    Id?: string
    State?: { Pid?: number; Running?: boolean }
  }
  const { Pid: pid = 0, Running: running = false } = found.State ?? {}
  if (pid > 0 && running) return { id: found.Id ?? name, pid }
  throw new EngineError('The holder of the network ended at once; see the log of the engine.', 500)
}

/** The network of a holder, open. Where its process still runs after that, it is its own network. */
async function enterable(
  engine: EngineClient,
  name: string,
): Promise<{ readonly id: string; readonly network: FileHandle }> {
  const { pid } = await holderOn(engine, name)
  const network = await open(`/proc/${pid}/ns/net`).catch((error: unknown) => {
    throw noEntry(error instanceof Error ? error.message : String(error))
  })
  try {
    const after = await holderOn(engine, name)
    // where the engine numbers its processes otherwise than this machine does, that number is somebody else's
    const command = await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')
    if (after.pid === pid && command === holderCommand) return { id: after.id, network }
    throw new EngineError(`The holder of the network is not process ${pid} on this machine; ${fix}.`, 501)
  } catch (error) {
    await network.close()
    throw error
  }
}

const fix =
  'run this worker as root on the machine of the engine, with nsenter (util-linux), ' +
  'or give the job the egress "none"'

const noEntry = (why: string): EngineError =>
  new EngineError(`The network of the container cannot be entered (${why}); ${fix}.`, 501)

async function listenInside(network: FileHandle): Promise<Server> {
  const program = fileURLToPath(new URL(`./network-listener${sourceEnding}`, import.meta.url))
  // the network is the fourth descriptor of the child
  const child = spawn('nsenter', ['--net=/proc/self/fd/3', process.execPath, program, String(proxyPort)], {
    stdio: ['ignore', 'ignore', 'ignore', network.fd, 'ipc'],
    env: {},
    timeout: enterMs,
  })
  return new Promise((resolve, reject) => {
    child.on('error', (error: NodeJS.ErrnoException) => reject(noEntry(error.code ?? error.message)))
    child.on('message', (message, handle) => {
      if (handle !== undefined) resolve(handle as Server)
      else reject(noEntry(JSON.stringify(message)))
    })
    void once(child, 'exit').then(
      ([code]) => reject(noEntry(`nsenter ended with ${String(code)}`)),
      () => undefined,
    )
  })
}

/** `.ts` where the sources run, `.js` where they were built. */
const sourceEnding = import.meta.url.endsWith('.ts') ? '.ts' : '.js'
