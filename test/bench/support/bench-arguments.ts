// What the benches take on their command line: `--name value` with numbers, each within bounds, and lists of
// words, of those that are there. Anything else ends the process with words, so that a slip of the fingers
// does not measure something else.

export type Allowed = Readonly<
  Record<string, { readonly fallback: number; readonly least: number; readonly most: number }>
>

/** Seconds that bound each part of a bench. */
export const seconds = (fallback: number) => ({ fallback, least: 1, most: 3_600 })

/**
 * What was given, or the fallbacks. `lists`: each of words with commas, of which some may be given; the
 * fallback is all that there are.
 */
export function benchArguments<Names extends Allowed, Lists extends Readonly<Record<string, string>>>(
  allowed: Names,
  lists?: Lists,
): { [Name in keyof Names]: number } & { [Name in keyof Lists]: string } {
  const given = process.argv.slice(2)
  const values = new Map<string, number | string>([
    ...Object.entries(allowed).map(([name, { fallback }]) => [name, fallback] as const),
    ...Object.entries(lists ?? {}),
  ])
  for (let at = 0; at < given.length; at += 2) {
    const name = given[at]?.replace(/^--/, '') ?? ''
    values.set(name, valueOf(name, given[at + 1] ?? ''))
  }
  return Object.fromEntries(values) as ReturnType<typeof benchArguments<Names, Lists>>

  function valueOf(name: string, text: string): number | string {
    const list = lists?.[name]?.split(',')
    if (list !== undefined) {
      if (text.split(',').every((word) => list.includes(word))) return text
      refuse(`--${name} takes some of ${list.join(',')}.`)
    }
    const bounds = allowed[name]
    const value = Number(text)
    if (bounds === undefined) refuse(`There is no "--${name}"; there are: ${words(allowed)}.`)
    if (!(value >= bounds.least && value <= bounds.most)) {
      refuse(`--${name} takes a number from ${bounds.least} to ${bounds.most}.`)
    }
    return value
  }
}

function words(allowed: Allowed): string {
  return Object.entries(allowed)
    .map(([name, { fallback }]) => `--${name} n (${fallback})`)
    .join(', ')
}

function refuse(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(2)
}
