// The process that one engine plays in, so that no engine pays for the memory or the warm-up of another. Its
// parent (players.ts) sends verbs and gets answers. It ends with its parent.
import pg from 'pg'
import { type Engine, type EngineName, type EngineOptions, insertBatch, type OpenEngine } from './engine.ts'
import { openBelfryRemote } from './engines/belfry-remote.ts'
import { openBelfry } from './engines/belfry.ts'
import { openBullMq } from './engines/bullmq.ts'
import { openGraphileWorker } from './engines/graphile-worker.ts'
import { openPgBoss } from './engines/pg-boss.ts'

const openers: Readonly<Record<EngineName, OpenEngine>> = {
  belfry: openBelfry,
  'belfry-remote': openBelfryRemote,
  'graphile-worker': openGraphileWorker,
  'pg-boss': openPgBoss,
  bullmq: openBullMq,
}

/** Calls for inserts at a time. */
const insertCallers = 2
const quietMs = 3_000
/** Nobody measures for so long. */
const wholeBacklogMs = 3_600_000

export interface Inserted {
  readonly count: number
  readonly perSecond: number
}

export interface Burned {
  readonly count: number
  readonly perSecond: number
  /** Of this process, for each run. */
  readonly cpuMicros: number
  /** Statements that it sent to Postgres, for each run. */
  readonly statements: number
  /** Resident memory after each quarter, MiB. */
  readonly memoryMiB: readonly number[]
}

let engine: Engine | undefined
let heard: (stampMs: number) => void = () => undefined
let working = false
let statements = 0
let counted = 0

/** The wall clock with fractions of a millisecond. */
const nowMs = (): number => performance.timeOrigin + performance.now()
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))

function opened(): Engine {
  if (engine === undefined) throw new Error('No engine is open.')
  return engine
}

async function work(): Promise<void> {
  if (working) return
  working = true
  await opened().work((stampMs) => heard(stampMs))
}

/** All lateness that handlers saw, until `count` of them ran or nothing came for a while after `untilMs`. */
async function listenFor(count: number, untilMs: number): Promise<number[]> {
  const late: number[] = []
  let lastMs = untilMs
  heard = (stampMs) => {
    const atMs = nowMs()
    lastMs = Math.max(untilMs, atMs)
    late.push(atMs - stampMs)
  }
  while (late.length < count && nowMs() - lastMs < quietMs) await pause(20)
  heard = () => undefined
  return late
}

/** The instants of `offsetsMs`, each inserted `noticeMs` before, or all in one call. */
async function insertAll(
  offsetsMs: readonly number[],
  startMs: number,
  noticeMs: number | null,
): Promise<void> {
  const each = async (offset: number): Promise<void> => {
    if (noticeMs !== null) await pause(startMs + offset - noticeMs - nowMs())
    await opened().insertAt(startMs + offset)
  }
  if (noticeMs === null) await opened().insertAllAt(offsetsMs.map((offset) => startMs + offset))
  else await Promise.all(offsetsMs.map(each))
}

const verbs = {
  async open(name: EngineName, options: EngineOptions) {
    engine = await openers[name](options)
  },
  async insertFor(ms: number, most: number): Promise<Inserted> {
    const startedMs = nowMs()
    let count = 0
    const call = async (): Promise<void> => {
      while (nowMs() - startedMs < ms && count < most) {
        count += insertBatch
        await opened().insertMany(insertBatch)
      }
    }
    await Promise.all(Array.from({ length: insertCallers }, call))
    return { count, perSecond: (count / (nowMs() - startedMs)) * 1_000 }
  },
  preload: (count: number) => opened().preload(count),
  insertOne: () => opened().insertOne(0),
  work,
  async burn(ms: number, most: number): Promise<Burned> {
    let count = 0
    let firstMs = 0
    let lastMs = 0
    const done = Promise.withResolvers<void>()
    // a backlog that is worked off whole has its quarters by number, else they are those of the time
    const quarter = ms >= wholeBacklogMs ? Math.ceil(most / 4) : Infinity
    let cpu = process.cpuUsage()
    const memoryMiB: number[] = []
    const noteMemory = (): void => void memoryMiB.push(Math.round(process.memoryUsage.rss() / 2 ** 20))
    const statementsBefore = statements
    heard = () => {
      if (count === 0) {
        firstMs = nowMs()
        cpu = process.cpuUsage()
        setTimeout(done.resolve, ms)
      }
      if (++count === most) done.resolve()
      if (count % quarter === 0) noteMemory()
      lastMs = nowMs()
    }
    const watching = quarter === Infinity ? setInterval(noteMemory, ms / 4) : undefined
    await work()
    await done.promise
    clearInterval(watching)
    const { user, system } = process.cpuUsage(cpu)
    const ran = count
    heard = () => undefined
    return {
      count: ran,
      perSecond: ((ran - 1) / (lastMs - firstMs)) * 1_000,
      cpuMicros: (user + system) / ran,
      statements: (statements - statementsBefore) / ran,
      memoryMiB,
    }
  },
  /** Begins to execute and to count. */
  async begin(): Promise<void> {
    heard = () => {
      counted++
    }
    await work()
  },
  /** Handlers called since `begin`, and resident memory, MiB. */
  async progress(): Promise<{ readonly count: number; readonly memoryMiB: number }> {
    return { count: counted, memoryMiB: Math.round(process.memoryUsage.rss() / 2 ** 20) }
  },
  async lateness(
    offsetsMs: readonly number[],
    leadMs: number,
    noticeMs: number | null,
  ): Promise<readonly number[]> {
    await work()
    const startMs = Math.ceil(nowMs()) + leadMs
    const listening = listenFor(offsetsMs.length, startMs + Math.max(...offsetsMs))
    await insertAll(offsetsMs, startMs, noticeMs)
    return listening
  },
  async herd(count: number, leadMs: number): Promise<readonly number[]> {
    await work()
    const dueMs = Math.ceil(nowMs()) + leadMs
    const { insertSchedules } = opened()
    if (insertSchedules === undefined) throw new Error('This engine has no schedules.')
    const listening = listenFor(count, dueMs)
    await insertSchedules(count, dueMs)
    if (nowMs() > dueMs) throw new Error('The schedules were not stored before they were due.')
    return listening
  },
  async send(count: number, everyMs: number): Promise<void> {
    for (let each = 0; each < count; each++) {
      await opened().insertOne(nowMs())
      await pause(everyMs)
    }
  },
  async listen(count: number, forMs: number): Promise<readonly number[]> {
    await work()
    return listenFor(count, nowMs() + forMs)
  },
  close: () => opened().close(),
}

export type Verbs = typeof verbs

/** Counts what goes to Postgres, whoever sends it: all engines use the same driver. */
function countStatements(): void {
  const driver = pg.Client.prototype as unknown as { query: (...all: unknown[]) => unknown }
  const { query } = driver
  driver.query = function counted(this: unknown, ...all) {
    statements++
    return query.apply(this, all)
  }
}

interface Asked {
  readonly id: number
  readonly verb: keyof Verbs
  readonly given: readonly unknown[]
}

countStatements()
process.on('message', ({ id, verb, given }: Asked) => {
  const call = verbs[verb] as (...all: readonly unknown[]) => Promise<unknown>
  call(...given).then(
    (answer) => process.send?.({ id, answer }),
    (error: unknown) => process.send?.({ id, error: error instanceof Error ? error.stack : String(error) }),
  )
})
process.on('disconnect', () => process.exit(1))
