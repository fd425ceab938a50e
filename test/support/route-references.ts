// Every place in a query or body where a call may name a thing of its tenant, by id or by name: found by
// walking the schemas of the routes, each with a call that names something there. A place that is found and
// has no call here fails the test that walks them, so that a new field cannot be forgotten.
import { type Route, type RouteName, routes } from '@belfry/contract'
import { z } from 'zod'
import { httpJob } from './api.ts'
import type { Thing } from './route-cases.ts'

/** What can be named; of a `secret` and a `tenant` only the name is. */
export type Named = Thing | 'tenant' | 'secret'
type Sent = { readonly query: string } | { readonly body: unknown }
export type Reference = {
  readonly thing: Named
  readonly by: 'id' | 'name'
  readonly send: (value: string) => Sent
}

/** Fields that name things, where their schema does not say that it is an id. */
const namingWork = ['job', 'jobs', 'schedule', 'workflow', 'calendar', 'skipOn', 'onlyOn', 'pool', 'pools']
const namingAccess = ['secret', 'serviceAccount', 'runAs', 'tenant', 'member', 'actor', 'subject']
const naming = new Set([...namingWork, ...namingAccess])
/**
 * The same words for something else: counts, a predicate of a filter, who a client is elsewhere, how far the
 * platform has come among all tenants.
 */
const nothingNamed = /^(?:tenantQuotaUpdate |secretRewrap body$)/

type Schema = Readonly<Record<string, unknown>>
const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null

/** `route part/pointer` of each place. */
export function placesOf(): ReadonlyMap<string, 'id' | 'name'> {
  const found = new Map<string, 'id' | 'name'>()
  for (const [name, route] of Object.entries<Route>(routes))
    for (const part of ['query', 'body'] as const) {
      const schema = route[part]
      if (schema === undefined || nothingNamed.test(`${name} ${part}`)) continue
      const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema
      walk(root, root, `${name} ${part}`, [], found)
    }
  return found
}

function walk(
  root: Schema,
  schema: unknown,
  at: string,
  within: readonly string[],
  found: Map<string, 'id' | 'name'>,
): void {
  if (!isSchema(schema)) return
  const ref = typeof schema['$ref'] === 'string' ? schema['$ref'].split('/').at(-1) : undefined
  if (ref !== undefined) {
    const known = isSchema(root['$defs']) ? root['$defs'][ref] : undefined
    if (!within.includes(ref)) walk(root, known, at, [...within, ref], found)
    return
  }
  if (schema['format'] === 'uuid') found.set(at, 'id')
  for (const [key, property] of Object.entries(isSchema(schema['properties']) ? schema['properties'] : {})) {
    if (naming.has(key) && isText(property)) found.set(`${at}/${key}`, 'name')
    walk(root, property, `${at}/${key}`, within, found)
  }
  walk(root, schema['items'], `${at}/-`, within, found)
  walk(root, schema['additionalProperties'], `${at}/*`, within, found)
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    const parts = schema[key]
    for (const part of Array.isArray(parts) ? parts : []) walk(root, part, at, within, found)
  }
}

/** Text, or a list or an alternative of it; no closed list of words. */
const isText = (schema: unknown): boolean => /"type":"string"/.test(JSON.stringify(schema))

const { handler } = httpJob('x')
const withSecret: Readonly<Record<string, (secret: string) => unknown>> = {
  'signing/keys/-/secret': (secret) => ({ ...handler, signing: { keys: [{ secret }] } }),
  'oauth2/clientSecret/secret': (secret) => ({
    ...handler,
    oauth2: { tokenUrl: 'https://example.com/token', clientId: 'c', clientSecret: { secret } },
  }),
  'tls/privateKey/secret': (secret) => ({
    ...handler,
    tls: {
      certificate: '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
      privateKey: { secret },
    },
  }),
  'env/*/secret': (secret) => ({
    kind: 'container',
    image: `localhost/x@sha256:${'0'.repeat(64)}`,
    env: { A: { secret } },
  }),
}
const ofHandlers: Readonly<Record<string, (handler: unknown) => unknown>> = {
  'jobCreate body': (each) => ({ name: 'zq-new', handler: each }),
  'jobUpdate body': (each) => ({ handler: each }),
  'scheduleCreate body': (each) => ({ name: 'zq-new', every: '1h', handler: each }),
  'workflowApply body/tasks/-': (each) => ({ name: 'zq-new', tasks: [{ id: 'a', handler: each }] }),
  'workflowApply body/onFailure/-': (each) => ({
    name: 'zq-new',
    tasks: [{ id: 'a', handler }],
    onFailure: [{ id: 'b', handler: each }],
  }),
  'workflowApply body/finally/-': (each) => ({
    name: 'zq-new',
    tasks: [{ id: 'a', handler }],
    finally: [{ id: 'b', handler: each }],
  }),
}

const inQuery = (thing: Named, by: 'id' | 'name', field: string): Reference => ({
  thing,
  by,
  send: (value) => ({ query: `${field}=${value}` }),
})
const inBody = (thing: Named, by: 'id' | 'name', body: (value: string) => unknown): Reference => ({
  thing,
  by,
  send: (value) => ({ body: body(value) }),
})
const inFilter = (thing: Named, by: 'id' | 'name', field: string): Reference =>
  inBody(thing, by, (value) => ({ filter: { [field]: value } }))
const task = (part: 'tasks' | 'onFailure' | 'finally', field: 'job' | 'workflow'): Reference =>
  inBody(field, 'name', (value) => ({
    name: 'zq-new',
    ...(part === 'tasks' ? {} : { tasks: [{ id: 'a', handler }] }),
    [part]: [{ id: 'b', [field]: value }],
  }))
const ofRun = (body: (held: { runId: string; leaseEpoch: number }) => unknown): Reference =>
  inBody('run', 'id', (runId) => body({ runId, leaseEpoch: 1 }))
const line = { at: '2026-11-29T12:00:00Z', level: 'info', message: 'x' }
const pooled = (pool: string) => ({ concurrency: { limit: 1, pools: [pool] } })
const newSchedule = { name: 'zq-new', every: '1h' }

export const references: Readonly<Record<string, Reference>> = {
  ...Object.fromEntries(
    Object.entries(ofHandlers).flatMap(([at, body]) =>
      Object.entries(withSecret).map(([field, made]) => [
        `${at}/handler/${field}`,
        inBody('secret', 'name', (value) => body(made(value))),
      ]),
    ),
  ),
  'keyCreate body/serviceAccount': inBody('serviceAccount', 'name', (serviceAccount) => {
    return { name: 'zq-new', scopes: ['read'], serviceAccount }
  }),
  'keyCreate body/tenant': inBody('tenant', 'name', (tenant) => ({
    name: 'zq-new',
    scopes: ['read'],
    tenant,
  })),
  'memberCreate body/tenant': inBody('tenant', 'name', (tenant) => {
    return { email: 'zq@example.com', role: 'viewer', tenant }
  }),
  'signIn body/tenant': inBody('tenant', 'name', (tenant) => {
    return { email: 'zq@example.com', password: 'gull-harbour-41-lantern', tenant }
  }),
  'jobCreate body/concurrency/pools': inBody('pool', 'name', (pool) => ({
    ...httpJob('zq-new'),
    ...pooled(pool),
  })),
  'jobUpdate body/concurrency/pools': inBody('pool', 'name', pooled),
  'jobCreate body/runAs': inBody('serviceAccount', 'name', (runAs) => ({ ...httpJob('zq-new'), runAs })),
  'jobUpdate body/runAs': inBody('serviceAccount', 'name', (runAs) => ({ runAs })),
  'functionRegister body/jobs/-/concurrency/pools': inBody('pool', 'name', (pool) => {
    return { jobs: [{ name: 'zq-new', ...pooled(pool) }] }
  }),
  'functionRegister body/jobs/-/runAs': inBody('serviceAccount', 'name', (runAs) => {
    return { jobs: [{ name: 'zq-new', runAs }] }
  }),
  'scheduleCreate body/job': inBody('job', 'name', (job) => ({ ...newSchedule, job })),
  'scheduleCreate body/workflow': inBody('workflow', 'name', (workflow) => ({ ...newSchedule, workflow })),
  'scheduleCreate body/skipOn': inBody('calendar', 'name', (name) => ({
    ...newSchedule,
    handler,
    skipOn: [name],
  })),
  'scheduleCreate body/onlyOn': inBody('calendar', 'name', (name) => ({
    ...newSchedule,
    handler,
    onlyOn: [name],
  })),
  'scheduleUpdate body/skipOn': inBody('calendar', 'name', (name) => ({ skipOn: [name] })),
  'scheduleUpdate body/onlyOn': inBody('calendar', 'name', (name) => ({ onlyOn: [name] })),
  'schedulePreview body/skipOn': inBody('calendar', 'name', (name) => ({ every: '1h', skipOn: [name] })),
  'schedulePreview body/onlyOn': inBody('calendar', 'name', (name) => ({ every: '1h', onlyOn: [name] })),
  'schedulePreview body/scheduleId': inBody('schedule', 'id', (scheduleId) => ({ scheduleId })),
  'scheduleList query/jobId': inQuery('job', 'id', 'jobId'),
  'scheduleList query/workflowId': inQuery('workflow', 'id', 'workflowId'),
  'backfillList query/scheduleId': inQuery('schedule', 'id', 'scheduleId'),
  'workflowApply body/tasks/-/job': task('tasks', 'job'),
  'workflowApply body/tasks/-/workflow': task('tasks', 'workflow'),
  'workflowApply body/onFailure/-/job': task('onFailure', 'job'),
  'workflowApply body/onFailure/-/workflow': task('onFailure', 'workflow'),
  'workflowApply body/finally/-/job': task('finally', 'job'),
  'workflowApply body/finally/-/workflow': task('finally', 'workflow'),
  'workflowRunCreate body/workflow': inBody('workflow', 'name', (workflow) => ({ workflow })),
  'workflowRunList query/workflow': inQuery('workflow', 'name', 'workflow'),
  'workflowRunList query/scheduleId': inQuery('schedule', 'id', 'scheduleId'),
  'runCreate body/job': inBody('job', 'name', (job) => ({ job })),
  'runCreate body/dependsOn/-': inBody('run', 'id', (run) => ({ job: 'zq-own', dependsOn: [run] })),
  'runBatch body/items/-/job': inBody('job', 'name', (job) => ({
    items: [{ job: 'zq-own' }, { job }],
    atomic: true,
  })),
  'runBatch body/items/-/dependsOn/-': inBody('run', 'id', (run) => {
    return { items: [{ job: 'zq-own', dependsOn: [run] }], atomic: true }
  }),
  'runList query/jobId': inQuery('job', 'id', 'jobId'),
  'runList query/job': inQuery('job', 'name', 'job'),
  'runList query/scheduleId': inQuery('schedule', 'id', 'scheduleId'),
  'runList query/backfillId': inQuery('backfill', 'id', 'backfillId'),
  'runList query/workflowRunId': inQuery('workflowRun', 'id', 'workflowRunId'),
  'runCancelMany body/filter/job': inFilter('job', 'name', 'job'),
  'runCancelMany body/filter/jobId': inFilter('job', 'id', 'jobId'),
  'runCancelMany body/filter/scheduleId': inFilter('schedule', 'id', 'scheduleId'),
  'runCancelMany body/filter/backfillId': inFilter('backfill', 'id', 'backfillId'),
  'deadLetterList query/job': inQuery('job', 'name', 'job'),
  'deadLetterList query/jobId': inQuery('job', 'id', 'jobId'),
  'deadLetterGroups query/job': inQuery('job', 'name', 'job'),
  'deadLetterGroups query/jobId': inQuery('job', 'id', 'jobId'),
  'deadLetterReplayMany body/filter/job': inFilter('job', 'name', 'job'),
  'deadLetterReplayMany body/filter/jobId': inFilter('job', 'id', 'jobId'),
  'deadLetterDeleteMany body/filter/job': inFilter('job', 'name', 'job'),
  'deadLetterDeleteMany body/filter/jobId': inFilter('job', 'id', 'jobId'),
  'auditList query/actor': inQuery('key', 'id', 'actor'),
  'auditList query/subject': inQuery('job', 'id', 'subject'),
  'personSessionList query/memberId': inQuery('member', 'id', 'memberId'),
  'secretGrant body/job': inBody('job', 'name', (job) => ({ job })),
  'secretGrant body/workflow': inBody('workflow', 'name', (workflow) => ({ workflow })),
  'secretGrant body/serviceAccount': inBody('serviceAccount', 'name', (serviceAccount) => ({
    serviceAccount,
  })),
  'secretRevoke body/job': inBody('job', 'name', (job) => ({ job })),
  'secretRevoke body/workflow': inBody('workflow', 'name', (workflow) => ({ workflow })),
  'secretRevoke body/serviceAccount': inBody('serviceAccount', 'name', (serviceAccount) => ({
    serviceAccount,
  })),
  'workflowApply body/triggers/-/workflow': inBody('workflow', 'name', (workflow) => {
    return { name: 'zq-new', tasks: [{ id: 'a', handler }], triggers: [{ workflow, states: ['succeeded'] }] }
  }),
  'workerClaim body/known/-/runId': ofRun((held) => ({ max: 1, known: [held] })),
  'workerHeartbeat body/progress/-/runId': ofRun((held) => ({ progress: [{ ...held, value: 1 }] })),
  'workerComplete body/ends/-/runId': ofRun((held) => ({
    ends: [{ ...held, outcome: 'succeeded', durationMs: 1 }],
  })),
  'workerRelease body/runs/-/runId': ofRun((held) => ({ runs: [held] })),
  'workerLog body/chunks/-/runId': ofRun((held) => ({ chunks: [{ ...held, firstLine: 0, lines: [line] }] })),
}

/** Where a trigger names a workflow that is not there yet, it is one that may come. */
export const mayNameWhatIsToCome: readonly string[] = ['workflowApply body/triggers/-/workflow']

export const routeOf = (place: string): RouteName => place.split(' ')[0] as RouteName
