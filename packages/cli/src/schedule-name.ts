/**
 * Names for schedules that were given none: made of what is
 * called and when, such as "example.com-every-5m".
 */

const longest = 128

/** Lower case letters, digits and dots, everything else one dash; cron's star becomes "x". */
function slug(text: string): string {
  return text
    .toLowerCase()
    .replaceAll('*', 'x')
    .replace(/[^a-z0-9.]+/g, '-')
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '')
}

/** "20261201T023000Z": without what separates and without fractions of a second. */
const compactTime = (text: string): string => text.replace(/\.\d+/, '').replace(/(\d)[-:](?=\d)/g, '$1')

export type NameParts = {
  readonly url?: string | undefined
  readonly job?: string | undefined
  readonly at?: string | undefined
  readonly every?: string | undefined
  readonly cron?: string | undefined
}

/** A valid name. `attempt` 1 is the plain one, 2 and on add a number. */
export function derivedName(parts: NameParts, attempt: number): string {
  const host = parts.url !== undefined && URL.canParse(parts.url) ? new URL(parts.url).host : undefined
  const what = slug(parts.job ?? host ?? '') || 'schedule'
  const kind = (['every', 'cron', 'at'] as const).find((key) => parts[key] !== undefined)
  const when =
    kind === undefined
      ? ''
      : slug(`${kind} ${kind === 'at' ? compactTime(parts.at ?? '') : (parts[kind] ?? '')}`)
  const suffix = attempt === 1 ? '' : `-${attempt}`
  const room = longest - suffix.length
  const name = [what, when]
    .filter((part) => part !== '')
    .join('-')
    .slice(0, room)
  return `${name.replace(/[^a-z0-9]+$/, '')}${suffix}`
}
