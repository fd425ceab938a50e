/**
 * From what a person types to the thing meant: an id is taken as it is, a name is looked up by the list's
 * filter. An unknown name gets the nearest known one as a suggestion. Names are those of living things; what
 * was deleted left its history, and its id to find that by.
 */
import type { CalendarSummary, JobSummary, Key, ScheduleSummary, WorkflowSummary } from '@belfry/contract'
import { BelfryError, nearest } from '@belfry/contract'
import type { Client } from '@belfry/sdk'

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const isId = (text: string): boolean => idPattern.test(text)

/** Names looked through for a suggestion, at most. */
const suggestionsLimit = 1000

function notFound(noun: string, name: string, known: Iterable<string>): BelfryError {
  const near = nearest(name, known)
  const gone = noun === 'key' ? '' : ` (a deleted ${noun} goes by its id)`
  const fix = near === undefined ? `see \`belfry ${noun} list\`${gone}` : `did you mean ${near}?`
  return new BelfryError('not_found', `There is no ${noun} "${name}"; ${fix}`)
}

const namesOf = (items: readonly { readonly name: string }[]): string[] => items.map((item) => item.name)

export async function findJob(client: Client, nameOrId: string): Promise<JobSummary> {
  if (isId(nameOrId)) return client.jobs.get(nameOrId)
  const [job] = await client.jobs.list({ name: nameOrId, limit: 1 }).take(1)
  if (job !== undefined) return job
  throw notFound(
    'job',
    nameOrId,
    namesOf(await client.jobs.list({ limit: suggestionsLimit }).take(suggestionsLimit)),
  )
}

export async function findSchedule(client: Client, nameOrId: string): Promise<ScheduleSummary> {
  if (isId(nameOrId)) return client.schedules.get(nameOrId)
  const [schedule] = await client.schedules.list({ name: nameOrId, limit: 1 }).take(1)
  if (schedule !== undefined) return schedule
  const all = client.schedules.list({ limit: suggestionsLimit })
  throw notFound('schedule', nameOrId, namesOf(await all.take(suggestionsLimit)))
}

export async function findCalendar(client: Client, nameOrId: string): Promise<CalendarSummary> {
  if (isId(nameOrId)) return client.calendars.get(nameOrId)
  const [calendar] = await client.calendars.list({ name: nameOrId, limit: 1 }).take(1)
  if (calendar !== undefined) return calendar
  const all = client.calendars.list({ limit: suggestionsLimit })
  throw notFound('calendar', nameOrId, namesOf(await all.take(suggestionsLimit)))
}

export async function findWorkflow(
  client: Client,
  nameOrId: string,
): Promise<Pick<WorkflowSummary, 'id' | 'name' | 'version'>> {
  if (isId(nameOrId)) return client.workflows.get(nameOrId)
  const [workflow] = await client.workflows.list({ name: nameOrId, limit: 1 }).take(1)
  if (workflow !== undefined) return workflow
  const all = client.workflows.list({ limit: suggestionsLimit })
  throw notFound('workflow', nameOrId, namesOf(await all.take(suggestionsLimit)))
}

/** The id of a job, where its history is asked for: an id is not looked up, so that a deleted one serves. */
export const findJobId = async (client: Client, nameOrId: string): Promise<string> =>
  isId(nameOrId) ? nameOrId : (await findJob(client, nameOrId)).id

/** The same of a schedule. */
export const findScheduleId = async (client: Client, nameOrId: string): Promise<string> =>
  isId(nameOrId) ? nameOrId : (await findSchedule(client, nameOrId)).id

/**
 * A key by name or id; the API lists keys without a filter. Of several that had the name the one in use, else
 * the one that was revoked last.
 */
export async function findKey(client: Client, nameOrId: string): Promise<Key> {
  const known: Key[] = []
  let revoked: Key | undefined
  for await (const key of client.keys.list({ limit: suggestionsLimit })) {
    if (key.id === nameOrId.toLowerCase()) return key
    if (key.name === nameOrId && key.revokedAt === null) return key
    if (key.name === nameOrId && (key.revokedAt ?? '') > (revoked?.revokedAt ?? '')) revoked = key
    known.push(key)
  }
  if (revoked !== undefined) return revoked
  throw notFound('key', nameOrId, namesOf(known.filter((key) => key.revokedAt === null)))
}

/** The id of a run as it must be: runs have no names. */
export function runId(text: string): string {
  if (isId(text)) return text
  throw new BelfryError('not_found', `"${text}" is not the id of a run; \`belfry run list\` shows ids`)
}

/** The same of a backfill. */
export function backfillId(text: string): string {
  if (isId(text)) return text
  const where = '`belfry backfill list` shows ids'
  throw new BelfryError('not_found', `"${text}" is not the id of a backfill; ${where}`)
}
