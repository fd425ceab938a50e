/**
 * The calendars that a request names in a schedule. To be asked before the schedule is locked
 * (ports/calendars.ts).
 */
import { BelfryError, nearest } from '@belfry/contract'
import type { CalendarUse } from '../domain/calendar/calendar-lookup.ts'
import type { NamedCalendars } from '../engine/catalog/said-timing.ts'
import type { CatalogTx } from '../ports/catalog.ts'

interface Named {
  readonly skipOn?: readonly string[] | null | undefined
  readonly onlyOn?: readonly string[] | null | undefined
}

/** How many names are looked at to say which calendar was meant. */
const suggestionLimit = 200

/** Held for what is written. Throws `not_found` with a pointer to a name that no calendar has. */
export async function namedCalendars(
  { calendars }: Pick<CatalogTx, 'calendars'>,
  { skipOn, onlyOn }: Named,
  access: 'hold' | 'look',
): Promise<NamedCalendars> {
  const names = [...new Set([...(skipOn ?? []), ...(onlyOn ?? [])])]
  if (names.length === 0) return { skipOn: [], onlyOn: [] }
  const found = await calendars.byNames(names, access === 'hold')
  const byName = new Map(found.map((calendar) => [calendar.name, calendar]))
  const missing = names.filter((name) => !byName.has(name))
  if (missing.length > 0) {
    const known = await calendars.names(suggestionLimit)
    const errors = (['skipOn', 'onlyOn'] as const).flatMap((list) =>
      [...({ skipOn, onlyOn }[list] ?? []).entries()].flatMap(([index, name]) =>
        byName.has(name) ? [] : [{ pointer: `/${list}/${index}`, message: noSuchCalendar(name, known) }],
      ),
    )
    throw new BelfryError('not_found', errors[0]?.message ?? '', { errors })
  }
  const usesOf = (list: readonly string[] | null | undefined, use: CalendarUse['use']) =>
    (list ?? []).flatMap((name): CalendarUse[] => {
      const calendar = byName.get(name)
      return calendar === undefined ? [] : [{ ...calendar, use }]
    })
  return { skipOn: usesOf(skipOn, 'skip'), onlyOn: usesOf(onlyOn, 'only') }
}

function noSuchCalendar(name: string, known: readonly string[]): string {
  const meant = nearest(name, known)
  const fix = meant === undefined ? 'Create it first.' : `Did you mean "${meant}"?`
  return `There is no calendar named "${name}". ${fix}`
}
