/**
 * The short way for runs that a program asks for in its own process and that may start at once: one round
 * trip, in which nothing is read first.
 *
 *   template (kept) ─► ids, tags ─► stored if the template is still the present one ─► hint
 *                 ▲                      │
 *                 └──── read again ◄─────┘ it is not
 *
 * Whatever says more (a dedupe key, a time) or is of a job that gathers goes the long way: the answer here is
 * undefined then, and nothing is stored. A try whose answer was lost is made again with the same ids, and
 * what it stored all the same is found by them, so nothing is stored twice.
 */
import type { JsonValue, RunCreate } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { gatherRule } from '../domain/gathering.ts'
import { limitsOf } from '../domain/run-limits.ts'
import { laneOfRun } from '../engine/catalog/run-maker.ts'
import type { DatabaseClock } from '../engine/database-clock.ts'
import type { FairTags } from '../engine/fair-tags.ts'
import type { Catalog, NewRun, RunTemplate } from '../ports/catalog.ts'
import type { Clock } from '../ports/clock.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { Ids } from '../ports/ids.ts'
import type { Random } from '../ports/random.ts'
import type { AlikeRuns, DirectIntake } from '../ports/run-intake.ts'

export interface DirectEnqueueParts {
  readonly intake: DirectIntake
  readonly catalog: Catalog
  readonly ids: Ids
  readonly tags: FairTags
  readonly hints: Pick<Hints, 'publish'>
  readonly events: EventSink
  readonly databaseClock: DatabaseClock
  readonly clock: Clock
  readonly random: Random
}

export interface Stored {
  readonly ids: readonly string[]
  readonly dueAtMs: number
  /** Something may hold them. */
  readonly limited: boolean
  /** One of them, as it was stored. */
  readonly runAt: (index: number) => NewRun
}

export interface DirectEnqueue {
  /** `body`: checked, without its input. Throws `database_*`. */
  store(body: RunCreate, inputs: readonly (JsonValue | undefined)[]): Promise<Stored | undefined>
}

/** The weight of a tenant, which a template has besides, may be so old. */
const templateLifeMs = 10_000
const maxTemplates = 1_000
const mostTemplates = 3
const mostTries = 3
const longestRetryMs = 500

export function createDirectEnqueue(parts: DirectEnqueueParts, tenantId: string): DirectEnqueue {
  const { intake, clock } = parts
  const templates = createTemplates(parts, tenantId)

  /** Makes a few tries where that may help. */
  async function surely<T>(work: (tries: number) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work(tries)
      } catch (error) {
        const helps = error instanceof BelfryError && error.retryable && error.quota === undefined
        if (!helps || tries === mostTries) throw error
        await clock.sleep(parts.random.next() * longestRetryMs)
      }
    }
  }

  /** Where an earlier try stored them: all, or none. */
  async function found({ ids, template }: AlikeRuns): ReturnType<DirectIntake['insert']> {
    const access = { tenantId, dryRun: false, readOnly: true }
    const run = await parts.catalog.within(access, ({ runs }) =>
      runs.find(ids[0] ?? '', { before: null, limit: 1 }),
    )
    return run && { dueAtMs: run.dueAtMs, limited: template.limited }
  }

  return {
    async store(body, inputs) {
      if (!isPlain(body, inputs)) return undefined
      for (let tries = 0; tries < mostTemplates; tries++) {
        const template = await surely(() => templates.present(body.job))
        if (template === undefined || gatherRule(template.definition) !== null) return undefined
        const lane = laneOfRun(template, tenantId, body.queue)
        await surely(() => parts.tags.ready([lane]))
        const sentMs = clock.monotonicMs()
        const runs = alikeRuns(parts, { template, body, inputs, lane, tenantId })
        const stored = await surely(
          async (tried) =>
            (tried > 1 ? await found(runs) : undefined) ?? (await intake.insert(tenantId, runs)),
        )
        if (stored === undefined) {
          templates.forget(body.job)
          continue
        }
        parts.databaseClock.observe(stored.dueAtMs, sentMs)
        tell(parts, tenantId, runs, stored.limited)
        return { ids: runs.ids, ...stored, runAt: (index) => newRun(runs, stored.dueAtMs, index) }
      }
      return undefined
    },
  }
}

/** What a request may say and still leave nothing to be decided. Whatever is new goes the long way. */
const plainFields: ReadonlySet<string> = new Set<keyof RunCreate>([
  'job',
  'queue',
  'priority',
  'runDeadlineMs',
  'startWithinMs',
])

function isPlain(body: RunCreate, inputs: readonly (JsonValue | undefined)[]): boolean {
  const isKnown = ([field, value]: [string, unknown]) => value === undefined || plainFields.has(field)
  if (inputs.length === 0 || !Object.entries(body).every(isKnown)) return false
  const none = inputs[0] === undefined
  return inputs.every((input) => (input === undefined) === none)
}

function createTemplates({ catalog, clock }: DirectEnqueueParts, tenantId: string) {
  const kept = new Map<string, { readonly template: RunTemplate; readonly atMs: number }>()
  return {
    async present(job: string): Promise<RunTemplate | undefined> {
      const known = kept.get(job)
      if (known !== undefined && clock.monotonicMs() - known.atMs < templateLifeMs) return known.template
      const atMs = clock.monotonicMs()
      const access = { tenantId, dryRun: false, readOnly: true }
      const template = await catalog.within(access, ({ runs }) => runs.templateByJobName(job))
      if (kept.size >= maxTemplates) kept.clear()
      if (template !== undefined) kept.set(job, { template, atMs })
      return template
    },
    forget: (job: string) => void kept.delete(job),
  }
}

interface Wanted {
  readonly template: RunTemplate
  readonly body: RunCreate
  readonly inputs: readonly (JsonValue | undefined)[]
  readonly lane: string
  readonly tenantId: string
}

function alikeRuns(
  { ids, tags, databaseClock }: DirectEnqueueParts,
  { template, body, inputs, lane, tenantId }: Wanted,
): AlikeRuns {
  const { definition, tenantWeight: weight } = template
  const priority = body.priority ?? definition.priority
  const place = { queue: lane, tenantId, weight, priority }
  const limits = limitsOf(definition, body, 0)
  const nowMs = databaseClock.nowMs()
  return {
    template,
    source: 'manual',
    queue: body.queue ?? definition.queue,
    priority,
    dueAtMs: null,
    startWithinMs: limits.startByMs,
    runDeadlineMs: limits.runDeadlineMs,
    ids: inputs.map(() => ids.uuidv7(nowMs)),
    tags: inputs.map(() => tags.next(place)),
    inputs: inputs[0] === undefined ? null : (inputs as readonly JsonValue[]),
  }
}

function tell(
  { hints, events }: DirectEnqueueParts,
  tenantId: string,
  runs: AlikeRuns,
  limited: boolean,
): void {
  hints.publish({ topic: 'ready', key: runs.queue })
  if (limited) hints.publish({ topic: 'gate', key: tenantId })
  events.emit('runs_enqueued', { count: runs.ids.length, queue: runs.queue, source: runs.source })
}

function newRun(runs: AlikeRuns, dueAtMs: number, index: number): NewRun {
  const { template, source, queue, priority, startWithinMs, runDeadlineMs } = runs
  return {
    id: runs.ids[index] ?? '',
    template,
    scheduleId: null,
    scheduledForMs: null,
    source,
    queue,
    priority,
    input: runs.inputs?.[index],
    dueAtMs,
    startByMs: startWithinMs === null ? null : dueAtMs + startWithinMs,
    runDeadlineMs: runDeadlineMs === null ? null : dueAtMs + runDeadlineMs,
    start: { kind: 'ready', tag: runs.tags[index] ?? Number.NaN },
  }
}
