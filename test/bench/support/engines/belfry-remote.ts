// Belfry with a worker that reaches it over HTTP alone: a server process of all roles, and this process with
// `createWorker`. What is inserted goes in as in the embedded one.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createBelfry, createWorker } from 'belfry'
import type { Engine, EngineOptions } from '../engine.ts'
import { inserting, noopJob } from './belfry-inserting.ts'

const launcher = fileURLToPath(new URL('../../../../packages/cli/bin/belfry.js', import.meta.url))

export async function openBelfryRemote({ place, slots }: EngineOptions): Promise<Engine> {
  let tell: (stampMs: number) => void = () => undefined
  const noop = noopJob((stampMs) => tell(stampMs))
  const asking = createBelfry({
    databaseUrl: place.runtimeUrl,
    jobs: [noop],
    work: false,
    migrate: false,
  })
  await asking.start()
  const { secret } = await asking.client.keys.create({ name: `bench-${Date.now()}`, scopes: ['worker'] })
  const undo: (() => Promise<unknown>)[] = [() => asking.stop()]
  return {
    ...inserting(place, noop, () => asking),
    async work(heard) {
      tell = heard
      const server = await startServer(place.runtimeUrl)
      undo.push(server.stop)
      const worker = createWorker({
        jobs: [noop],
        url: server.apiUrl,
        token: secret ?? '',
        slots,
        handleSignals: false,
        drainMs: 1_000,
        register: false,
      })
      undo.push(() => worker.stop())
      await worker.start()
    },
    async close() {
      for (const each of undo.toReversed()) await each()
    },
  }
}

async function startServer(databaseUrl: string): Promise<{ apiUrl: string; stop: () => Promise<unknown> }> {
  const server = spawn(process.execPath, [launcher, 'server', 'start'], {
    env: { ...process.env, DATABASE_URL: databaseUrl, BELFRY_PORT: '0', BELFRY_OPS_PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(server, 'close')
  process.once('exit', () => server.kill('SIGKILL'))
  const apiUrl = await new Promise<string>((resolve, reject) => {
    void gone.then(() => reject(new Error('The server ended before it was ready.')))
    createInterface({ input: server.stdout }).on('line', (line) => {
      const { event, apiUrl: found } = JSON.parse(line) as { event?: string; apiUrl?: string }
      if (event === 'ready' && found !== undefined) resolve(found)
    })
  })
  const stop = async (): Promise<void> => {
    server.kill('SIGTERM')
    await gone
  }
  return { apiUrl, stop }
}
