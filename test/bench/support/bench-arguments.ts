// What the benches take on their command line: `--name value` with numbers, each within bounds. Anything else
// ends the process with words, so that a slip of the fingers does not measure something else.

export type Allowed = Readonly<
  Record<string, { readonly fallback: number; readonly least: number; readonly most: number }>
>

/** Seconds that bound each part of a bench. */
export const seconds = (fallback: number) => ({ fallback, least: 1, most: 3_600 })

/** The numbers that were given, or their fallbacks. */
export function benchArguments<Names extends Allowed>(allowed: Names): { [Name in keyof Names]: number } {
  const given = process.argv.slice(2)
  const values = new Map(Object.entries(allowed).map(([name, { fallback }]) => [name, fallback]))
  for (let at = 0; at < given.length; at += 2) {
    const name = given[at]?.replace(/^--/, '') ?? ''
    const bounds = allowed[name]
    const value = Number(given[at + 1])
    if (bounds === undefined) refuse(`There is no "${given[at]}"; there are: ${words(allowed)}.`)
    if (!(value >= bounds.least && value <= bounds.most)) {
      refuse(`--${name} takes a number from ${bounds.least} to ${bounds.most}.`)
    }
    values.set(name, value)
  }
  return Object.fromEntries(values) as { [Name in keyof Names]: number }
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
