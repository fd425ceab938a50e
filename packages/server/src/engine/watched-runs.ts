/**
 * Which runs somebody follows now, here or in another process (engine/run-watcher.ts says so by the hint
 * `watch`): whoever writes a line or an end of one of them gives the hint `run`. Where nobody follows
 * anything, this costs a look at the size of an empty map.
 */
import type { LogLine } from '@belfry/contract'
import { maskKeys, maskKeysInJson } from '../domain/secret-mask.ts'
import type { Clock } from '../ports/clock.ts'
import type { Hints } from '../ports/hints.ts'
import type { AttemptEnd, RunStore } from '../ports/run-store.ts'
import type { WorkerStore } from '../ports/worker-store.ts'
import { announceMs } from './run-watcher.ts'

const rememberMs = 3 * announceMs
const maxWatched = 10_000

export interface WatchedRuns {
  /** Something about these runs was written. */
  note(runs: Iterable<{ readonly runId: string }>): void
}

export function createWatchedRuns({ hints, clock }: { hints: Hints; clock: Clock }): WatchedRuns {
  const untilMs = new Map<string, number>()
  hints.subscribe((hint) => {
    if (hint.topic !== 'watch') return
    untilMs.delete(hint.key)
    untilMs.set(hint.key, clock.monotonicMs() + rememberMs)
    const oldest = untilMs.keys().next()
    if (untilMs.size > maxWatched && oldest.done !== true) untilMs.delete(oldest.value)
  })

  return {
    note(runs) {
      if (untilMs.size === 0) return
      const nowMs = clock.monotonicMs()
      for (const [runId, until] of untilMs) {
        if (until >= nowMs) break
        untilMs.delete(runId)
      }
      if (untilMs.size === 0) return
      for (const { runId } of runs) if (untilMs.has(runId)) hints.publish({ topic: 'run', key: runId })
    },
  }
}

/** A store whose ends are told to those who follow the runs, and whose errors hold no API key. */
export function tellingEnds(store: RunStore, watched: WatchedRuns): RunStore {
  return {
    ...store,
    async complete(sessionId, ends) {
      const done = await store.complete(sessionId, ends.map(safeEnd))
      watched.note(done.applied)
      return done
    },
    async rescue(ends) {
      const done = await store.rescue(ends)
      watched.note(done.applied)
      return done
    },
  }
}

/** A store whose lines are told to those who follow the runs, and hold no API key. */
export function tellingLines(workers: WorkerStore, watched: WatchedRuns): WorkerStore {
  return {
    ...workers,
    async appendLogs(sessionId, chunks) {
      const safe = chunks.map((chunk) => ({ ...chunk, lines: chunk.lines.map(withoutKeys) }))
      const kept = await workers.appendLogs(sessionId, safe)
      watched.note(kept)
      return kept
    },
  }
}

function withoutKeys(line: LogLine): LogLine {
  const { fields } = line
  const message = maskKeys(line.message)
  return fields === undefined ? { ...line, message } : { ...line, message, fields: maskKeysInJson(fields) }
}

const safeEnd = (end: AttemptEnd): AttemptEnd =>
  end.errorMessage === null ? end : { ...end, errorMessage: maskKeys(end.errorMessage) }
