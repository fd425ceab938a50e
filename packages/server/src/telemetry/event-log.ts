/**
 * The engine's events as log entries: what an operator has to see at `warn` and above, what tells the story
 * at `info`, and what happens for every run at `debug`. The words are the same each time; the facts are
 * fields, milliseconds among them whole.
 */
import type { EngineEventName, EngineEvents } from '@belfry/contract'
import type { Logger } from 'pino'
import type { EventSink } from '../ports/event-sink.ts'

type LogLevel = 'debug' | 'info' | 'warn' | 'error'
type Row<Name extends EngineEventName> = {
  readonly level: LogLevel | ((payload: EngineEvents[Name]) => LogLevel)
  readonly message: string
}

const skewAlarmMs = 1_000

const rows: { readonly [Name in EngineEventName]: Row<Name> } = {
  occurrences_fired: { level: 'debug', message: 'occurrences fired' },
  fire_refused: { level: 'info', message: 'planned times had moved or been fired by another node' },
  runs_enqueued: { level: 'debug', message: 'runs enqueued' },
  runs_released: { level: 'debug', message: 'delayed runs became ready' },
  runs_claimed: { level: 'debug', message: 'runs claimed' },
  attempt_started: { level: 'debug', message: 'attempt started' },
  attempt_ended: {
    level: (payload) =>
      payload.state === 'failed' ? 'warn' : payload.outcome === 'succeeded' ? 'debug' : 'info',
    message: 'attempt ended',
  },
  lease_lost: { level: 'warn', message: 'a lease was lost; the write was refused' },
  runs_rescued: { level: 'warn', message: 'runs of lost workers were taken back' },
  schedule_paused: { level: 'warn', message: 'a schedule was paused because its last runs failed' },
  session_started: { level: 'info', message: 'session started' },
  session_lost: { level: 'warn', message: 'session lost' },
  shards_changed: { level: 'info', message: 'shards changed hands' },
  gate_passed: { level: 'debug', message: 'the gate was looked at' },
  backfill_stepped: { level: 'debug', message: 'a backfill took a step' },
  backfill_ended: { level: 'info', message: 'a backfill ended' },
  workflows_moved: { level: 'debug', message: 'workflow runs were moved on' },
  workflow_events_found: { level: 'warn', message: 'workflow runs were found that nobody had told of' },
  partitions_changed: { level: 'info', message: 'partitions of history changed' },
  zone_data_changed: { level: 'info', message: 'newer zone data; future times are computed again' },
  zone_data_differs: { level: 'warn', message: 'this process has other zone data than is on record' },
  replan_started: { level: 'info', message: 'future times are computed again' },
  replan_advanced: { level: 'debug', message: 'some future times were computed again' },
  replan_ended: {
    level: ({ failed }) => (failed > 0 ? 'warn' : 'info'),
    message: 'future times were computed again',
  },
  containers_removed: { level: 'warn', message: 'containers of lost workers were removed' },
  role_failed: { level: 'error', message: 'a role failed and will try again' },
  clock_skew: {
    level: ({ skewMs }) => (Math.abs(skewMs) > skewAlarmMs ? 'warn' : 'debug'),
    message: 'local clock against the clock of the database',
  },
  database_restarted: { level: 'warn', message: 'the database was restarted' },
  database_moved: { level: 'warn', message: 'another host of the database is used from now on' },
  events_sent: { level: 'debug', message: 'events were sent on' },
  event_skipped: {
    level: 'error',
    message: 'an event of what ended is not taken by Kafka, and was passed over',
  },
  timers_missed: { level: 'warn', message: 'overdue timers that the index had missed' },
  redis_mended: { level: 'warn', message: 'things that are none of ours were thrown away in Redis' },
  redis_overruled: {
    level: ({ shards }) => (shards === 0 ? 'info' : 'warn'),
    message: 'shards are led by Postgres, because Redis gives them to nobody who fires',
  },
  part_throttled: { level: 'debug', message: 'a part says that it is asked too much' },
  carrier_refused: {
    level: 'warn',
    message: 'a queue or topic cannot be used; its runs are claimed directly',
  },
  announcements_discarded: {
    level: 'warn',
    message: 'messages that are none of ours were found among announcements',
  },
  runs_announced: { level: 'debug', message: 'runs were announced' },
  announced_claim: { level: 'debug', message: 'a claim where runs are announced' },
  part_changed: {
    level: ({ state }) => (state === 'up' ? 'info' : 'warn'),
    message: 'a part that can be done without for a while went away or came back',
  },
}

export function createEventLog(logger: Logger): EventSink {
  return {
    emit(name, payload) {
      const { level, message }: Row<typeof name> = rows[name]
      const chosen = typeof level === 'function' ? level(payload) : level
      if (!logger.isLevelEnabled(chosen)) return
      const { error, ...facts }: Record<string, unknown> = { ...payload }
      const entry: Record<string, unknown> = { event: name, ...wholeMs(facts) }
      // pino serializes an error whole under this name
      if (error !== undefined) entry['err'] = error
      logger[chosen](entry, message)
    },
  }
}

/** The facts with every `…Ms` rounded, also in lists and in what is listed. */
function wholeMs(facts: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, rounded(name, value)]))
}

function rounded(name: string, value: unknown): unknown {
  if (typeof value === 'number') return name.endsWith('Ms') ? Math.round(value) : value
  if (Array.isArray(value)) return value.map((each: unknown) => rounded(name, each))
  return typeof value === 'object' && value !== null ? wholeMs({ ...value }) : value
}
