// A real Redis for one test or bench: on a free loopback port and in a directory of its own, and every
// fault that it can have. SIGKILL is how it stops: what it kept is on disk or gone, as after a crash.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'

const startMs = 10_000

export type RedisServer = {
  readonly port: number
  readonly url: string
  readonly version: string
  /** One command as it is typed; the first piece of the answer, as it is sent. */
  readonly say: (command: string) => Promise<string>
  readonly pause: () => void
  readonly goOn: () => void
  /** Ends it as a crash does; `start` brings it back on the same port, with what is on disk. */
  readonly kill: () => Promise<void>
  readonly start: () => Promise<void>
}

/** `program` is where `redis-server` is (test/support/services.ts); `settings` are its flags. */
export async function startRedisServer(
  program: string,
  settings: readonly string[] = ['--save', '', '--appendonly', 'no'],
): Promise<RedisServer> {
  const port = await freePort()
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--loglevel', 'warning', ...settings]
  const say = (command: string): Promise<string> => redisSays(port, command)
  let child = await startOne(program, flags, say)
  const version = /redis_version:(\S+)/.exec(await say('INFO server'))?.[1] ?? ''
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    version,
    say,
    pause: () => void child.kill('SIGSTOP'),
    goOn: () => void child.kill('SIGCONT'),
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
    async start() {
      child = await startOne(program, flags, say)
    },
  }
}

async function startOne(
  program: string,
  flags: readonly string[],
  say: (command: string) => Promise<string>,
): Promise<ChildProcess> {
  const child = spawn(program, flags, { stdio: ['ignore', 'ignore', 'inherit'] })
  const deadlineMs = performance.now() + startMs
  while (!(await say('PING').catch(() => '')).startsWith('+PONG')) {
    if (performance.now() > deadlineMs || child.exitCode !== null) {
      child.kill('SIGKILL')
      throw new Error('redis-server did not start.')
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return child
}

/** One command on a connection of its own; the first piece of the answer. */
function redisSays(port: number, command: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${command}\r\n`))
    socket.once('data', (data) => {
      resolve(data.toString())
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
