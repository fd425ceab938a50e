// One call of each route that the client has, to be made against a server that answers anything.
import { type Client, defineJob } from '@belfry/sdk'

const handler = { kind: 'http', url: 'https://example.com/hook' } as const
/** What the server answers is no stream of events, and no run. */
const refused = (promise: Promise<unknown>): Promise<void> =>
  promise.then(
    () => {
      throw new Error('expected an error')
    },
    () => undefined,
  )

type Calls = readonly (() => Promise<unknown>)[]

/** One call of each route of service accounts. */
function accountCalls({ serviceAccounts }: Client, id: string): Calls {
  return [
    () => serviceAccounts.create({ name: 'a', role: 'viewer' }),
    () => serviceAccounts.list().page(),
    () => serviceAccounts.get(id),
    () => serviceAccounts.update(id, { disabled: true }),
  ]
}

/** One call of each route of secrets. */
function containerCalls({ containerPolicies }: Client): Calls {
  return [
    () => containerPolicies.get(),
    () => containerPolicies.getOf('t'),
    () => containerPolicies.setOf('t', { maxPids: 32 }),
  ]
}

function secretCalls({ secrets }: Client, id: string): Calls {
  return [
    () => secrets.create({ name: 's', value: 'a-value-to-keep' }),
    () => secrets.list().page(),
    () => secrets.get(id),
    () => secrets.update(id, { description: 'words' }),
    () => secrets.rotate(id, { value: 'another-value' }),
    () => secrets.restore(id, { version: 1 }),
    () => secrets.grant(id, { job: 'j' }),
    () => secrets.revoke(id, { job: 'j' }),
    () => secrets.rewrap(),
    () => secrets.delete(id),
  ]
}

/** One call of each route of the audit log; its chain is not what this server answers. */
function auditCalls({ audit }: Client): Calls {
  return [() => audit.list().page(), () => audit.status(), () => refused(audit.export().next())]
}

/** One call of each route of what is planned. */
function planCalls(client: Client, id: string): Calls {
  const { jobs, schedules, backfills, calendars } = client
  return [
    () => jobs.create({ name: 'j', handler }),
    () => jobs.list().page(),
    () => jobs.get(id),
    () => jobs.update(id, { priority: 1 }),
    () => jobs.delete(id),
    () => jobs.pause(id, { reason: 'repair' }),
    () => jobs.resume(id),
    () => schedules.create({ name: 's', every: '5m', job: 'j' }),
    () => schedules.list().page(),
    () => schedules.get(id),
    () => schedules.update(id, { every: '1h' }),
    () => schedules.delete(id),
    () => schedules.pause(id),
    () => schedules.resume(id),
    () => schedules.skip(id, { count: 2 }),
    () => schedules.sleep(id, { until: '2026-11-30T00:00:00Z' }),
    () => schedules.wake(id),
    () => schedules.trigger(id),
    () => schedules.preview({ every: '5m' }),
    () => schedules.occurrences(id).page(),
    () => schedules.explain(id),
    () => schedules.backfill(id, { from: '2026-11-01T00:00:00Z' }),
    () => backfills.list().page(),
    () => backfills.get(id),
    () => backfills.pause(id),
    () => backfills.resume(id),
    () => backfills.cancel(id, { cancelRuns: true }),
    () => calendars.create({ name: 'c', dates: ['2026-12-24'] }),
    () => calendars.list().page(),
    () => calendars.get(id),
    () => calendars.days(id, { from: '2026-12-01' }),
    () => calendars.update(id, { dates: null }),
    () => calendars.delete(id),
  ]
}

/** One call of each other route. */
function otherCalls(client: Client, id: string): Calls {
  const { runs, deadLetters, logs, workers, functions, pools, queues, quotas, keys, tenants } = client
  const job = defineJob({ name: 'f', run: () => 1 })
  return [
    () => client.whoami(),
    () => client.lambda.access(),
    () => runs.create({ job: 'j' }),
    () => runs.enqueueBatch({ items: [{ job: 'j' }] }),
    () => runs.list({ state: ['failed', 'running'] }).page(),
    () => runs.get(id),
    () => runs.attempts(id).page(),
    () => runs.cancel(id),
    () => runs.cancelMany({ filter: { job: 'j' } }),
    () => deadLetters.list({ state: ['open'] }).page(),
    () => deadLetters.groups(),
    () => deadLetters.get(id),
    () => deadLetters.replay(id),
    () => deadLetters.replayMany({ filter: { job: 'j' } }),
    () => deadLetters.delete(id),
    () => deadLetters.deleteMany({ filter: { job: 'j' } }),
    () => runs.explain(id),
    // what comes is no stream of events, and no run
    () => refused(runs.followLogs(id)[Symbol.asyncIterator]().next()),
    () => refused(client.waitForRun(id, { timeoutMs: 200 })),
    () => logs.get(id, { attempt: 1 }),
    () => workers.list().page(),
    () => functions.register([job]),
    () => pools.create({ name: 'p', slots: 2 }),
    () => pools.list().page(),
    () => pools.get(id),
    () => pools.update(id, { slots: 3 }),
    () => pools.delete(id),
    () => quotas.list(),
    () => quotas.listOf('acme'),
    () => quotas.setOf('acme', { jobs: 5 }),
    () => queues.list(),
    () => queues.get('mail'),
    () => queues.stats('mail'),
    () => queues.pause('mail', { reason: 'repair' }),
    () => queues.resume('mail'),
    () => queues.limit(),
    () => queues.setLimit({ runLimit: 5 }),
    () => keys.create({ name: 'k', scopes: ['read'] }),
    () => keys.list().page(),
    () => keys.revoke(id),
    () => tenants.create({ name: 't' }),
    () => tenants.list().page(),
    () => client.server(),
    () => client.cluster(),
    () => client.replans.list().page(),
  ]
}

/** One call of each route of workflows. */
function workflowCalls(client: Client, id: string): Calls {
  const { workflows, workflowRuns } = client
  return [
    () => workflows.apply({ name: 'w', tasks: [{ id: 'a', job: 'j' }] }),
    () => workflows.list().page(),
    () => workflows.get(id, { version: 2 }),
    () => workflows.versions(id).page(),
    () => workflows.diff(id, { from: 1, to: 2 }),
    () => workflows.delete(id),
    () => workflowRuns.create({ workflow: 'w' }),
    () => client.sendEvent({ event: 'order.created', key: '17' }),
    () => workflowRuns.list().page(),
    () => workflowRuns.get(id),
    () => workflowRuns.tasks(id),
    () => workflowRuns.cancel(id),
    () => workflowRuns.rerun(id, { what: 'only', tasks: ['a'] }),
    () => workflowRuns.mark(id, { tasks: ['a'], state: 'succeeded', reason: 'by hand' }),
    () => workflowRuns.skip(id, { tasks: ['a'] }),
    () => workflowRuns.explain(id, { task: 'a' }),
    () => workflowRuns.history(id),
    () => workflowRuns.approvals().page(),
    () => workflowRuns.approve(id, { task: 'a' }),
    () => workflowRuns.reject(id, { task: 'a', reason: 'no' }),
    () => workflowRuns.signal(id, { signal: 'go' }),
  ]
}

/** One call of each route of people. */
function peopleCalls(client: Client, id: string): Calls {
  const { members, sessions } = client
  const password = 'gull-harbour-41-lantern'
  return [
    () => members.invite({ email: 'ada@example.com', role: 'viewer' }),
    () => members.list().page(),
    () => members.get(id),
    () => members.update(id, { role: 'admin' }),
    () => members.inviteAgain(id),
    () => members.delete(id),
    () => sessions.list().page(),
    () => sessions.revoke(id),
    () => sessions.end(),
    () => client.signInWays(),
    () => client.signIn({ email: 'ada@example.com', password }),
    () => client.acceptInvite({ token: 'bfi_x', password }),
    () => client.changePassword({ currentPassword: password, newPassword: password }),
  ]
}

export const callsOfAll = (client: Client, id: string): Calls => [
  ...planCalls(client, id),
  ...workflowCalls(client, id),
  ...otherCalls(client, id),
  ...peopleCalls(client, id),
  ...containerCalls(client),
  ...auditCalls(client),
  ...secretCalls(client, id),
  ...accountCalls(client, id),
]
