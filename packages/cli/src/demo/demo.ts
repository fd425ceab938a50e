/**
 * `npm run demo`: Belfry doing its main job with real parts. Starts a server on an embedded Postgres in a
 * temporary directory and a local HTTP target, asks for runs of every kind, and tells what happens as it
 * happens. With a time limit it ends by itself and compares what was planned with what ran.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RunSummary } from '@belfry/contract'
import { isTerminal } from '@belfry/contract'
import type { startBelfry as StartBelfry } from '@belfry/server'
import type { Client } from '@belfry/sdk'
import { createClient } from '@belfry/sdk'
import { accountHeader, accountLine } from './account.ts'
import type { DemoPlan } from './plan.ts'
import { createDemoPlan } from './plan.ts'
import type { Receiver } from './receiver.ts'
import { startReceiver } from './receiver.ts'
import { judge, summaryTable } from './summary.ts'

export interface DemoOptions {
  /** Ends after this long; without it, on `signal` only. */
  readonly forSeconds?: number | undefined
  readonly signal: AbortSignal
  readonly out: (line: string) => void
  readonly startBelfry: typeof StartBelfry
}

const pollMs = 200
/** How long the end waits for runs that are due but not finished. */
const settleMs = 15_000

/** Resolves with the exit code: 0 only if everything that was due ran. */
export async function runDemo(options: DemoOptions): Promise<number> {
  const { out, signal } = options
  const dataDir = await mkdtemp(join(tmpdir(), 'belfry-demo-'))
  const receiver = await startReceiver()
  out('Starting Belfry with its own Postgres (the first start takes a few seconds) …')
  try {
    const belfry = await options.startBelfry({
      flags: { dataDir, port: 0, opsPort: 0, logLevel: 'silent', egressAllow: ['127.0.0.0/8'] },
      signal,
    })
    try {
      const client = createClient({ url: belfry.url, apiKey: belfry.apiKey })
      return await show(options, client, receiver)
    } finally {
      await belfry.stop()
    }
  } finally {
    await receiver.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function show(options: DemoOptions, client: Client, receiver: Receiver): Promise<number> {
  const { out, signal, forSeconds } = options
  const startedMs = Date.now()
  const plan = await createDemoPlan(client, receiver.url, startedMs)
  out(`API     ${client.url}   (OpenAPI: ${client.url}/v1/openapi.json)`)
  out(`Target  ${receiver.url}   (a local receiver; it sees every call)`)
  for (const item of [...plan.schedules, ...plan.runs]) out(`        ${item.name.padEnd(10)} ${item.words}`)
  out('')
  out(accountHeader())
  const account = createAccount(client, plan, receiver, out)
  const untilMs = forSeconds === undefined ? Number.POSITIVE_INFINITY : startedMs + forSeconds * 1_000
  while (!signal.aborted && Date.now() < untilMs) {
    await account.poll()
    await sleep(Math.min(pollMs, Math.max(0, untilMs - Date.now())), undefined, { signal }).catch(
      () => undefined,
    )
  }
  const endMs = Math.min(Date.now(), untilMs)
  return finish(client, plan, receiver, account, { endMs, out })
}

async function finish(
  client: Client,
  plan: DemoPlan,
  receiver: Receiver,
  account: Account,
  options: { endMs: number; out: (line: string) => void },
): Promise<number> {
  const deadlineMs = Date.now() + settleMs
  for (;;) {
    await account.poll()
    const verdict = await judge(client, plan, receiver.calls, options.endMs)
    if (verdict.ok || Date.now() > deadlineMs) {
      for (const line of summaryTable(verdict)) options.out(line)
      return verdict.ok ? 0 : 1
    }
    await sleep(pollMs)
  }
}

interface Account {
  /** Prints a line for every run that ended since the last call. */
  poll(): Promise<void>
}

function createAccount(
  client: Client,
  plan: DemoPlan,
  receiver: Receiver,
  out: (line: string) => void,
): Account {
  const told = new Set<string>()
  const names = new Map(plan.schedules.map((schedule) => [schedule.scheduleId, schedule.name]))
  return {
    async poll() {
      const page = await client.request('runList', { query: { limit: 50 } })
      const ended = page.items.filter((run: RunSummary) => isTerminal(run.state) && !told.has(run.id))
      for (const run of ended.reverse()) {
        told.add(run.id)
        const name = run.scheduleId === null ? run.job : (names.get(run.scheduleId) ?? run.job)
        out(accountLine(name, run, receiver.calls))
      }
    },
  }
}
