/**
 * A catalog in which whatever adds something is held to the quotas of its tenant first. It stands around the
 * stores, so that no door leads past it: one item or a batch, by hand, by a replay, by an event, by a program
 * with Belfry inside it. What the engine makes by itself (planned times, tasks, retries) is bounded by what
 * it is made of; it counts, and is not refused.
 */
import { isDeepStrictEqual } from 'node:util'
import { utf8Bytes } from '@belfry/contract'
import type { BackfillStore } from '../../ports/backfills.ts'
import type { Access, Catalog, CatalogTx, NewRun, PlatformTx } from '../../ports/catalog.ts'
import type { DirectIntake, RunIntake } from '../../ports/run-intake.ts'
import type { ScheduleStore } from '../../ports/schedule-store.ts'
import type { WorkflowStore } from '../../ports/workflows.ts'
import type { ZoneSource } from '../../ports/zones.ts'
import type { Ask } from './quota-limits.ts'
import type { Asker, QuotaKeeper, ShapeFault } from './quota-keeper.ts'
import { leastIntervalMs } from './schedule-interval.ts'

export function withQuotas(catalog: Catalog, keeper: QuotaKeeper, zones: ZoneSource): Catalog {
  return {
    ...catalog,
    within: (access, work) =>
      catalog.within(access, (tx) =>
        work(access.readOnly ? tx : guarded(tx, { keeper, zones, asker: askerOf(access, tx) })),
      ),
    withinPlatform: (access, work) =>
      catalog.withinPlatform(access, (tx) => work(guardedPlatform(tx, access.dryRun, { catalog, keeper }))),
  }
}

const askerOf = ({ tenantId, dryRun }: Pick<Access, 'tenantId' | 'dryRun'>, tx: CatalogTx): Asker => ({
  tenantId,
  dryRun,
  ask: (work) => work(tx.quotas),
})

/** It counts for the tenant that gets the key. */
function guardedPlatform(
  tx: PlatformTx,
  dryRun: boolean,
  { catalog, keeper }: { catalog: Catalog; keeper: QuotaKeeper },
): PlatformTx {
  const { tenants } = tx
  return {
    ...tx,
    tenants: {
      ...tenants,
      async insertKey(tenantId, key) {
        await keeper.room({ tenantId, dryRun, ask: askIn(catalog, tenantId) }, 'keys', 1)
        return tenants.insertKey(tenantId, key)
      },
    },
  }
}

interface Guard {
  readonly keeper: QuotaKeeper
  readonly zones: ZoneSource
  readonly asker: Asker
}

function guarded(tx: CatalogTx, guard: Guard): CatalogTx {
  const { keeper, asker } = guard
  return {
    ...tx,
    jobs: {
      ...tx.jobs,
      async insert(job) {
        await keeper.room(asker, 'jobs', 1)
        return tx.jobs.insert(job)
      },
    },
    keys: {
      ...tx.keys,
      async insert(key) {
        await keeper.room(asker, 'keys', 1)
        return tx.keys.insert(key)
      },
    },
    secrets: {
      ...tx.secrets,
      async insert(secret) {
        await keeper.room(asker, 'secrets', 1)
        return tx.secrets.insert(secret)
      },
    },
    schedules: guardedSchedules(tx, guard),
    backfills: guardedBackfills(tx.backfills, guard),
    workflows: guardedWorkflows(tx.workflows, guard),
    limits: {
      ...tx.limits,
      async setTenantLimit(runLimit) {
        if (runLimit !== null)
          await keeper.shape(asker, () => [{ quota: 'runsInFlight', is: runLimit, pointer: '/runLimit' }])
        await tx.limits.setTenantLimit(runLimit)
      },
    },
    intake: guardedIntake(tx.intake, keeper, asker),
    runs: {
      ...tx.runs,
      async insert(run) {
        await keeper.runs(asker, 1, () => largestInput([run]))
        return tx.runs.insert(run)
      },
    },
  }
}

function guardedSchedules(tx: CatalogTx, { keeper, asker, zones }: Guard): ScheduleStore {
  const { schedules } = tx
  const interval = (id: string, settings: Parameters<typeof leastIntervalMs>[1], nowMs: number) => {
    const is = leastIntervalMs(id, settings, zones, nowMs)
    return is === null ? [] : [{ quota: 'scheduleIntervalMs', is, pointer: '' } satisfies ShapeFault]
  }
  return {
    ...schedules,
    async insert(schedule) {
      const nowMs = await tx.nowMs()
      const { id, settings } = schedule
      await keeper.shape(asker, () => [...interval(id, settings, nowMs), inputFault(settings.input)])
      await keeper.room(asker, 'schedules', 1)
      await schedules.insert(schedule)
    },
    async change(id, change) {
      // one that has no next time cannot fire too often; one whose timer stays was judged before
      if (change.timer.kind === 'set') {
        const nowMs = await tx.nowMs()
        await keeper.shape(asker, () => interval(id, change.settings, nowMs))
      }
      // nor is one held to a smaller quota that keeps the input that it has: it can still be paused
      const { input } = change.settings
      await keeper
        .shape(asker, () => [inputFault(input)])
        .catch(async (error: unknown) => {
          if (!isDeepStrictEqual((await schedules.find(id))?.input, input)) throw error
        })
      await schedules.change(id, change)
    },
  }
}

function guardedBackfills(backfills: BackfillStore, { keeper, asker }: Guard): BackfillStore {
  return {
    ...backfills,
    async insert(backfill) {
      await keeper.shape(asker, () => [inputFault(backfill.input)])
      await backfills.insert(backfill)
    },
  }
}

function guardedWorkflows(workflows: WorkflowStore, { keeper, asker }: Guard): WorkflowStore {
  return {
    ...workflows,
    async insert(workflow) {
      await keeper.shape(asker, () => sizes(workflow.definition))
      await keeper.room(asker, 'workflows', 1)
      return workflows.insert(workflow)
    },
    async update(id, change) {
      await keeper.shape(asker, () => sizes(change.definition))
      return workflows.update(id, change)
    },
    runs: {
      ...workflows.runs,
      async insert(run) {
        await keeper.runs(asker, 1, () => inputBytes(run.input))
        await workflows.runs.insert(run)
      },
    },
  }
}

type Definition = Parameters<WorkflowStore['update']>[1]['definition']

function sizes({ tasks, onFailure, finally: last, triggers }: Definition): ShapeFault[] {
  const inputs = Object.entries({ tasks, onFailure, finally: last, triggers }).flatMap(([name, list]) =>
    list.flatMap((each, index) => ('input' in each ? [inputFault(each.input, `/${name}/${index}`)] : [])),
  )
  const all = [...tasks, ...onFailure, ...last]
  const edges = all.reduce((sum, task) => sum + task.needs.length, 0)
  return [
    { quota: 'workflowTasks', is: all.length, pointer: '/tasks' },
    { quota: 'workflowEdges', is: edges, pointer: '/tasks' },
    ...inputs,
  ]
}

function guardedIntake(intake: RunIntake, keeper: QuotaKeeper, asker: Asker): RunIntake {
  return {
    ...intake,
    async insert(runs) {
      if (runs.length > 0) await keeper.runs(asker, runs.length, () => largestInput(runs))
      return intake.insert(runs)
    },
    async addInputs(inputs) {
      const largest = () => Math.max(...inputs.map(({ input }) => inputBytes(input)))
      await keeper.runs(asker, 0, largest)
      await intake.addInputs(inputs)
    },
  }
}

const inputBytes = (input: unknown): number => (input === undefined ? 0 : utf8Bytes(JSON.stringify(input)))
const inputFault = (input: unknown, of = ''): ShapeFault => ({
  quota: 'inputBytes',
  is: inputBytes(input),
  pointer: `${of}/input`,
})
const largestInput = (runs: readonly Pick<NewRun, 'input'>[]): number =>
  Math.max(0, ...runs.map(({ input }) => inputBytes(input)))

/** Looks in a transaction for that: of one that belongs to somebody else, nothing is asked for quotas. */
const askIn =
  (catalog: Catalog, tenantId: string): Ask =>
  (work) =>
    catalog.within({ tenantId, dryRun: false, readOnly: true }, (tx) => work(tx.quotas))

/** Runs that are stored in a transaction of the caller's, in his process. */
export function insideQuotas(
  intake: RunIntake,
  { catalog, keeper, tenantId }: { catalog: Catalog; keeper: QuotaKeeper; tenantId: string },
): RunIntake {
  return guardedIntake(intake, keeper, { tenantId, dryRun: false, ask: askIn(catalog, tenantId) })
}

export function directQuotas(intake: DirectIntake, catalog: Catalog, keeper: QuotaKeeper): DirectIntake {
  return {
    async insert(tenantId, runs) {
      const asker = { tenantId, dryRun: false, ask: askIn(catalog, tenantId) }
      const largest = () => Math.max(0, ...(runs.inputs ?? []).map(inputBytes))
      await keeper.runs(asker, runs.ids.length, largest)
      return intake.insert(tenantId, runs)
    },
  }
}
