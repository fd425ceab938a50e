/**
 * `belfry worker pool`: starts and drains worker processes on this host, as many as their queues need. The
 * workers are servers with the role worker, or the command that is given.
 */
import { createHash } from 'node:crypto'
import { homedir, availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { BelfryError } from '@belfry/contract'
import type { WorkerDemand } from '@belfry/contract'
import type { Call, Command } from '../command.ts'
import { UsageError } from '../exit-codes.ts'
import type { Environment } from '../io.ts'
import { ownVersion } from '../own-version.ts'
import { openPoolDirectory } from '../pool/pool-directory.ts'
import { createPool, type Pool, type PoolEvent, type PoolGoal } from '../pool/pool.ts'
import { createPoolWorkers, type Launch } from '../pool/pool-workers.ts'
import { readText } from '../flags.ts'
import { settingOf } from './server.ts'
import { given } from './shared.ts'

const periodMs = 2_000
const askingMs = 5_000
/** Longer than any attempt may take, so that a worker that drains aborts nothing. */
const drainMs = 25 * 3_600_000

const monotonicMs = (): number => performance.now()

interface Wanted {
  readonly goal: PoolGoal
  readonly queues: readonly string[]
  readonly targetStartDelayMs: number
  /** Undefined: servers with the role worker. */
  readonly command: readonly string[] | undefined
}

function wantedOf(call: Call): Wanted {
  const { flags } = call
  const min = flags.whole('min', 0, 1_000) ?? 1
  const max = flags.whole('max', 1, 1_000) ?? Math.max(min, availableParallelism())
  if (min > max) throw new UsageError(`--min ${min} is more than --max ${max}; make it smaller`)
  const queues = (flags.text('queues') ?? 'default').split(',').map((queue) => queue.trim())
  if (queues.includes('*') || queues.includes('')) {
    throw new UsageError('--queues names the queues of the pool, like default,reports; it scales by them')
  }
  const command = call.many('command')
  if (command.length > 0 && flags.on('all-tenants')) {
    throw new UsageError('--all-tenants is for workers of servers; a command runs functions of one tenant')
  }
  const targetStartDelayMs = flags.durationMs('target-start-delay') ?? 1_000
  if (targetStartDelayMs < 10 || targetStartDelayMs > 86_400_000)
    throw new UsageError('--target-start-delay must be from 10ms to 1d')
  const slots = flags.whole('slots', 1, 10_000) ?? 50
  const scaleInAfterMs = flags.durationMs('scale-in-after') ?? 60_000
  return {
    goal: { min, max, slots, scaleInAfterMs },
    queues: [...new Set(queues)],
    targetStartDelayMs,
    command: command.length === 0 ? undefined : command,
  }
}

/** Of what is wrong with the call or the key, at the start, rather than a pool that never scales. */
const isRefusal = (error: unknown): boolean =>
  error instanceof BelfryError && ['unauthenticated', 'forbidden', 'invalid_request'].includes(error.code)

async function demandOf(call: Call, wanted: Wanted): Promise<WorkerDemand[]> {
  const client = await call.client()
  const { goal, targetStartDelayMs, queues, command } = wanted
  const tenants = call.flags.on('all-tenants') ? ('all' as const) : ('own' as const)
  const query = { tenants, targetStartDelayMs, slotsPerWorker: goal.slots }
  const signal = AbortSignal.timeout(askingMs)
  const answers = await Promise.all(queues.map((queue) => client.queues.stats(queue, query, { signal })))
  return answers.map((stats) => {
    if (command === undefined) return stats.servers
    // only asked for as all tenants, which a command refuses
    if (stats.functions === null) throw new Error('The server told nothing of functions.')
    return stats.functions
  })
}

/** Throws where the settings are wrong, or name no Postgres that processes can share. */
async function serverLaunch(call: Call, wanted: Wanted): Promise<Omit<Launch, 'fingerprint'>> {
  const { flags, io } = call
  const module = await io.loadServer()
  const file = flags.text('config')
  const sets = flags.list('set')
  const settings = Object.fromEntries(sets.map((text) => settingOf(text, module.secretSettings)))
  const { config } = module.loadConfig({ flags: settings, env: io.env, ...given({ file }) })
  if (config.databaseUrl === undefined)
    throw new UsageError('the workers of a pool share a Postgres with the servers; give its DATABASE_URL')
  const launcher = process.argv[1]
  if (launcher === undefined) throw new Error('It is not known how this program was started.')
  const opsPort = flags.whole('ops-port', 0, 65_535) ?? 0
  const fixed = ['server', 'start', '--roles', 'worker', '--worker-slots', String(wanted.goal.slots)]
  const named = ['--worker-queues', wanted.queues.join(','), '--set', `drainMs=${drainMs}`]
  const more = [...(file === undefined ? [] : ['--config', file]), ...sets.flatMap((text) => ['--set', text])]
  const opsPortOf = (number: number): string[] => [
    '--ops-port',
    String(opsPort === 0 ? 0 : opsPort + number - 1),
  ]
  const args = (number: number) => [
    ...process.execArgv,
    launcher,
    ...fixed,
    ...named,
    ...opsPortOf(number),
    ...more,
  ]
  // they speak to the store, and have no use for the key by which the pool asks
  const env = { ...io.env, BELFRY_API_KEY: undefined }
  return { command: process.execPath, args, env }
}

function commandLaunch(
  call: Call,
  wanted: Wanted,
  [command = '', ...args]: readonly string[],
): Omit<Launch, 'fingerprint'> {
  const told = { BELFRY_WORKER_SLOTS: String(wanted.goal.slots), BELFRY_DRAIN_MS: String(drainMs) }
  return { command, args: () => args, env: { ...call.io.env, ...told } }
}

async function launchOf(call: Call, wanted: Wanted): Promise<Launch> {
  const { command } = wanted
  const launch =
    command === undefined ? await serverLaunch(call, wanted) : commandLaunch(call, wanted, command)
  const file = call.flags.text('config')
  const config = file === undefined ? '' : await readText(file, '--config', call.io)
  const names = Object.keys(launch.env).filter((name) => /^BELFRY_|_URL$|^(KAFKA|SQS)_/.test(name))
  const settings = names.toSorted().map((name) => [name, launch.env[name]])
  const all = [ownVersion(), launch.command, launch.args(1), settings, config]
  const fingerprint = createHash('sha256').update(JSON.stringify(all)).digest('hex')
  return { ...launch, fingerprint }
}

function stateDirectory(call: Call, env: Environment): string {
  const name = call.flags.text('name') ?? 'default'
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(name) || /^\.+$/.test(name))
    throw new UsageError(`--name "${name}" is not 1 to 64 letters, digits, ".", "_", "-"`)
  const given = call.flags.text('state-dir')
  const home = env['XDG_STATE_HOME'] ?? join(env['HOME'] ?? homedir(), '.local', 'state')
  return join(given ?? join(home, 'belfry', 'pools'), name)
}

function eventWords(event: PoolEvent): string {
  switch (event.event) {
    case 'taken_over':
      return `Took over worker ${event.worker} (process ${event.pid}).`
    case 'started':
      return `Started worker ${event.worker} (process ${event.pid}): ${event.why}`
    case 'draining':
      return `Worker ${event.worker} (process ${event.pid}) ends with what it runs: ${event.why}`
    case 'ended':
      return event.asked
        ? `Worker ${event.worker} has ended.`
        : `Worker ${event.worker} (process ${event.pid}) has died; what it ran starts again elsewhere.`
    case 'no_figures':
      return `Nothing can be learnt of the queues, so the pool stays as it is: ${event.why}`
    case 'figures_again':
      return 'The queues can be looked at again.'
  }
}

async function runPool(call: Call): Promise<undefined> {
  const wanted = wantedOf(call)
  const path = stateDirectory(call, call.io.env)
  const launch = await launchOf(call, wanted)
  const demand = () => demandOf(call, wanted)
  await demand().catch((error: unknown) => {
    if (isRefusal(error)) throw error
  })
  const directory = openPoolDirectory(path)
  const stop = call.io.stopSignal()
  const onFault = (why: string): void => call.printer.warn(`A worker could not be started: ${why}`)
  const workers = createPoolWorkers({ directory, launch, monotonicMs, onFault })
  const tell = (event: PoolEvent): void => call.printer.value(event, [eventWords(event)])
  const { goal } = wanted
  const pool = createPool({ goal, workers, fingerprint: launch.fingerprint, demand, monotonicMs, tell })
  while (!stop.aborted) {
    await pool.step()
    await wait(periodMs, undefined, { signal: stop }).catch(() => undefined)
  }
  if (!call.flags.on('keep-workers')) await endAll(pool)
  directory.release()
  return undefined
}

async function endAll(pool: Pool): Promise<void> {
  pool.drainAll()
  while (pool.reap() > 0) await wait(200)
}

export const workerPoolCommand: Command = {
  noun: 'worker',
  verb: 'pool',
  summary: 'Keep as many workers on this host as their queues need',
  details:
    'Starts servers with the role worker (settings as for `belfry server start`), or the command behind ' +
    '`--`, which has to be a worker of functions. A worker that is too much takes nothing more and ends ' +
    'when what it runs has ended. Ctrl-C ends the pool like that; a second one leaves the workers to end ' +
    'by themselves. After a crash the next pool of that name takes the workers over.',
  arguments: [
    {
      name: 'command',
      summary: 'What starts a worker of functions, behind `--`',
      optional: true,
      many: true,
    },
  ],
  flags: [
    { name: 'min', value: 'count', summary: 'Least workers, 1 if left out' },
    { name: 'max', value: 'count', summary: 'Most workers; the processors of this host if left out' },
    {
      name: 'target-start-delay',
      value: 'duration',
      summary: 'Within which time what waits should start, 1s if left out',
    },
    { name: 'queues', value: 'names', summary: 'Queues that the workers serve, `default` if left out' },
    { name: 'slots', value: 'count', summary: 'Runs that a worker executes at once, 50 if left out' },
    {
      name: 'scale-in-after',
      value: 'duration',
      summary: 'For how long fewer must be enough before a worker is drained, 60s if left out',
    },
    { name: 'all-tenants', summary: 'Count the runs of all tenants (needs the scope platform)' },
    { name: 'ops-port', value: 'number', summary: 'Ops port of the first worker, the next ones count up' },
    { name: 'config', value: 'path', summary: 'File with settings of the workers, YAML or JSON' },
    { name: 'set', value: 'name=value', repeat: true, summary: 'A setting of the workers, by its name' },
    { name: 'name', value: 'name', summary: 'Of the pool, where a host has several; `default`' },
    { name: 'state-dir', value: 'path', summary: 'Where it is kept which workers there are' },
    { name: 'keep-workers', summary: 'Leave the workers running when the pool is stopped' },
  ],
  effect: 'local',
  fieldFlags: { '/query/targetStartDelayMs': '--target-start-delay', '/query/slotsPerWorker': '--slots' },
  examples: [
    {
      words: 'One to eight workers, so that nothing waits longer than a second',
      command: 'belfry worker pool --min 1 --max 8 --target-start-delay 1s',
    },
    {
      words: 'Workers of functions',
      command: 'belfry worker pool --max 4 --slots 10 -- node worker.js',
    },
  ],
  run: runPool,
}
