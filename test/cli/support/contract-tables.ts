// The tables of the test server of the contract, and what its answers do with them.
import {
  BelfryError,
  type Backfill,
  type Calendar,
  type Job,
  type Key,
  type Occurrence,
  type Pool,
  type RouteName,
  type Run,
  type Schedule,
  type Tenant,
  type Workflow,
} from '@belfry/contract'

export type Asked = {
  readonly id: string
  readonly body: unknown
  readonly query: Readonly<Record<string, unknown>>
}
export type Fields = Record<string, unknown>

export type Tables = {
  readonly jobs: Map<string, Job>
  readonly schedules: Map<string, Schedule>
  readonly runs: Map<string, Run>
  readonly keys: Map<string, Key>
  readonly tenants: Map<string, Tenant>
  readonly backfills: Map<string, Backfill>
  readonly calendars: Map<string, Calendar>
  readonly pools: Map<string, Pool>
  readonly workflows: Map<string, Workflow>
  readonly occurrences: Occurrence[]
}

export function page<T>(items: readonly T[], query: Readonly<Record<string, unknown>>) {
  const limit = Number(query['limit'])
  const start = query['cursor'] === undefined ? 0 : Number(query['cursor'])
  const more = start + limit < items.length
  return { items: items.slice(start, start + limit), nextCursor: more ? String(start + limit) : null }
}

export function need<T>(found: T | undefined, what: string): T {
  if (found === undefined) throw new BelfryError('not_found', `There is no such ${what}; check the id.`)
  return found
}

export function put<T extends { id: string }>(map: Map<string, T>, item: T, query: Readonly<Fields> = {}): T {
  if (query['dryRun'] !== true) map.set(item.id, item)
  return item
}

export function checkFree(map: ReadonlyMap<string, { name: string }>, name: string, what: string): void {
  if (![...map.values()].some((item) => item.name === name)) return
  throw new BelfryError('name_taken', `There is a ${what} "${name}" already; choose another name.`, {
    errors: [{ pointer: '/name', message: 'is taken' }],
  })
}

export function matching<T extends object>(
  map: ReadonlyMap<string, T>,
  query: Readonly<Fields>,
  ...names: string[]
): T[] {
  return [...map.values()].filter((item) =>
    names.every((name) => query[name] === undefined || query[name] === (item as Fields)[name]),
  )
}

export const said = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

export function change<T extends { id: string }>(
  map: Map<string, T>,
  asked: Asked,
  what: string,
  fields: Fields,
): T {
  return put(map, { ...need(map.get(asked.id), what), ...said(fields) }, asked.query)
}

export function remove(map: Map<string, unknown>, asked: Asked, what: string): undefined {
  need(map.get(asked.id), what)
  if (asked.query['dryRun'] !== true) map.delete(asked.id)
}

export type Answers = { readonly [N in RouteName]?: (asked: Asked & { readonly fields: Fields }) => unknown }
