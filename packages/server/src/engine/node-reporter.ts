/**
 * Tells the store every few seconds that this process is there and how it is (ports/nodes.ts), and watches
 * its clock. A process that stops in good order takes itself off the list; one that dies is silent after
 * `lifeMs`, and stays on the list for some minutes more, for whoever looks for it.
 */
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { NodeRecords, NodeReport } from '../ports/nodes.ts'
import type { Random } from '../ports/random.ts'
import type { Service } from '../ports/service.ts'
import { isAlarmingSkew } from '../domain/clock-skew.ts'
import type { DatabaseClock } from './database-clock.ts'
import { createLoop } from './loop.ts'
import type { NodeFacts } from './node-facts.ts'
import type { RunPace } from './run-pace.ts'
import { settledWithin } from './within.ts'

const periodMs = 5_000
/** Three reports may go amiss. */
const lifeMs = 20_000
const forgetEveryMs = 600_000
const repeatAlarmMs = 60_000
const leaveMs = 2_000

export interface NodeReporterOptions {
  readonly clock: Clock
  readonly random: Random
  readonly events: EventSink
  readonly databaseClock: DatabaseClock
  readonly records: NodeRecords
  readonly facts: Pick<NodeFacts, 'parts' | 'lagMs'>
  readonly pace: Pick<RunPace, 'take' | 'putBack'>
  readonly node: Pick<NodeReport, 'id' | 'host' | 'version' | 'roles'>
  readonly worker: () => NodeReport['worker']
}

export function createNodeReporter(options: NodeReporterOptions): Service {
  const { clock, databaseClock, facts, records, pace, node } = options
  const alarm = createSkewAlarm(options)
  let forgetAtMs = clock.monotonicMs() + forgetEveryMs * options.random.next()

  async function report(): Promise<void> {
    const errorMs = databaseClock.skewErrorMs()
    const skew = Number.isFinite(errorMs) ? { ms: databaseClock.skewMs(), errorMs } : null
    const how = { skew, lagMs: facts.lagMs(), worker: options.worker(), parts: facts.parts(databaseClock) }
    const sentMs = clock.monotonicMs()
    const { nowMs } = await records.report({ ...node, ...how }, lifeMs)
    databaseClock.observe(nowMs, sentMs)
    // its first look at the clock of the database
    if (skew === null) await report()
  }

  async function notePace(): Promise<void> {
    const taken = pace.take()
    if (taken.length === 0) return
    await records.notePace(taken).catch((error: unknown) => {
      pace.putBack(taken)
      throw error
    })
  }

  return createLoop({
    name: 'node reporter',
    clock,
    random: options.random,
    events: options.events,
    longestRetryMs: periodMs,
    async round() {
      await report()
      alarm()
      await notePace()
      if (clock.monotonicMs() >= forgetAtMs) {
        forgetAtMs = clock.monotonicMs() + forgetEveryMs
        await records.forget()
      }
      return periodMs * (0.9 + options.random.next() / 5)
    },
    async onStop() {
      // who cannot say goodbye is missed when its time runs out
      const left = records.leave(node.id).catch(() => undefined)
      await settledWithin(clock, leaveMs, left)
    },
  })
}

/** Tells of a clock that is off: at once, then once a minute, and when it is right again. */
function createSkewAlarm({ clock, events, databaseClock }: NodeReporterOptions): () => void {
  let toldAtMs: number | undefined
  return () => {
    const skewMs = databaseClock.skewMs()
    const off = isAlarmingSkew(skewMs, databaseClock.skewErrorMs())
    const due = toldAtMs === undefined || clock.monotonicMs() - toldAtMs >= repeatAlarmMs
    if (off ? !due : toldAtMs === undefined) return
    toldAtMs = off ? clock.monotonicMs() : undefined
    events.emit('clock_skew', { skewMs })
  }
}
