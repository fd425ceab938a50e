/**
 * One cell of the matrix, from an empty machine to a verdict: opens its world, lets the load and the fault
 * run, waits until nothing is left to do, and asks the checker.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { cleanUpList } from '../support/arena.ts'
import type { Arena } from '../support/arena.ts'
import { allowanceMs, type Cell } from './cells.ts'
import { judge, type Verdict } from './chaos-checker.ts'
import type { Configuration } from './configurations.ts'
import { planLoad } from './load.ts'
import { nodeNames, openWorld, type World } from './world.ts'

export interface CellOrder {
  readonly cell: Cell
  readonly configuration: Configuration
  readonly seed: number
  readonly windowMs: number
  readonly template?: string | undefined
  /** What is allowed to be late grows with the time that the start of the processes took. */
  readonly bearsLoad?: boolean
}

export interface CellResult {
  readonly cell: string
  readonly configuration: Configuration
  readonly seed: number
  readonly startedAt: string
  readonly seconds: number
  readonly passed: boolean
  /** The first of them. */
  readonly faults: readonly string[]
  /** Of the run that was latest; null where nothing ran. */
  readonly worstLateMs: number | null
  readonly worst: string
  readonly runs: number
  readonly calls: number
  readonly lost: number
  readonly diary: readonly string[]
  /** The last words of each process, where something is wrong. */
  readonly log: readonly string[]
}

export const usualWindowMs = 14_000
/** For the plan to be made in, and more of it where the machine is slow. */
const leadMs = 4_000
const longestLeadMs = 30_000
/** What the start of the world takes at most where nothing else loads the machine. */
const usualOpeningMs = 10_000
const settleMs = 30_000
const mostFaults = 20
const lastLines = 12

/** What it starts is entered into `list` and cleared away by it in the end. */
export async function runCell(order: CellOrder, list = cleanUpList()): Promise<CellResult> {
  const { defer, clear } = list
  const startedAt = new Date()
  try {
    const { cell, windowMs } = order
    const world = await openWorld({ ...order, ground: cell.ground }, defer)
    const tookMs = Date.now() - startedAt.getTime()
    const stretch = order.bearsLoad === true ? Math.max(1, tookMs / usualOpeningMs) : 1
    const lead = Math.min(longestLeadMs, Math.max(leadMs, tookMs / 2))
    world.begin(Math.ceil((Date.now() + lead) / 2_000) * 2_000)
    const load = await planLoad(world)
    const troubles: string[] = []
    if (Date.now() > world.firstMs()) troubles.push('the plan was not in place before its first time')
    const asking = load.ask()
    await cell.fault.wreak(world).catch((error: unknown) => {
      troubles.push(`the fault could not be done: ${error instanceof Error ? error.stack : String(error)}`)
    })
    await asking
    const missed = await untilQuiet(world.arena, world.firstMs() + windowMs + settleMs).then(() =>
      cell.fault.missed(world),
    )
    if (missed !== undefined) troubles.push(missed)
    const sql = await world.arena.connect()
    defer(() => sql.end())
    const { calls } = world.arena.ledger
    const verdict = await judge({
      sql,
      load,
      calls,
      lateMs: Math.round((cell.lateMs + allowanceMs) * stretch),
    })
    return resultOf(order, startedAt, world, { ...verdict, faults: [...troubles, ...verdict.faults] })
  } finally {
    await clear()
  }
}

const anythingLeft = `
  SELECT (SELECT count(*) FROM belfry.timer) + (SELECT count(*) FROM belfry.ready)
    + (SELECT count(*) FROM belfry.delayed) + (SELECT count(*) FROM belfry.workflow_progress)
    + (SELECT count(*) FROM belfry.workflow_event) + (SELECT count(*) FROM belfry.dependency_event) AS n`

/** What is left after that is for the checker to tell. */
async function untilQuiet(arena: Arena, untilMs: number): Promise<void> {
  while (Date.now() < untilMs) {
    const [row] = await arena.rows<{ n: string }>(anythingLeft).catch(() => [])
    if (row?.n === '0') return
    await wait(200)
  }
}

function resultOf(order: CellOrder, startedAt: Date, world: World, verdict: Verdict): CellResult {
  const { faults, worst, runs, lost } = verdict
  const passed = faults.length === 0
  const log = nodeNames.flatMap((name) => {
    const lines = world.arena.nodes.get(name)?.log ?? []
    return lines.slice(-lastLines).map((line) => `${name} ${line}`)
  })
  return {
    cell: order.cell.name,
    configuration: order.configuration,
    seed: order.seed,
    startedAt: startedAt.toISOString(),
    seconds: Math.round((Date.now() - startedAt.getTime()) / 1_000),
    passed,
    faults: faults.slice(0, mostFaults),
    worstLateMs: worst?.lateMs ?? null,
    worst: worst?.what ?? 'nothing ran',
    runs,
    calls: world.arena.ledger.calls.length,
    lost,
    diary: world.diary,
    log: passed ? [] : log,
  }
}
