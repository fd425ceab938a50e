// The words of a calendar interval, one after the other, with the column of each for faults. A reader takes
// what it expects; the first thing that nobody expects is the fault.

export type CalendarWords = {
  /** Takes the next word when it is one of these, and tells which. */
  take(...wanted: readonly string[]): string | undefined
  /** Takes the next word when the pattern matches, and gives the match. */
  match(pattern: RegExp): RegExpExecArray | undefined
  /** The next word and where it stands, for a message. */
  here(): string
  done(): boolean
}

export const WEEKDAY_WORDS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
export const MONTH_WORDS = [
  'january',
  'february',
  'march',
  'april',
  'may',
  'june',
  'july',
  'august',
  'september',
  'october',
  'november',
  'december',
]

/** Commas are words of their own, the same as "and". */
export function calendarWords(text: string): CalendarWords {
  const found = [...text.toLowerCase().matchAll(/,|[^\s,]+/g)].map((item) => ({
    word: item[0] === ',' ? 'and' : item[0],
    column: item.index + 1,
  }))
  let at = 0
  return {
    take(...wanted) {
      const word = found[at]?.word
      if (word === undefined || !wanted.includes(word)) return undefined
      at++
      return word
    },
    match(pattern) {
      const match = pattern.exec(found[at]?.word ?? '')
      if (match) at++
      return match ?? undefined
    },
    here() {
      const next = found[at]
      return next ? `${JSON.stringify(next.word)} at column ${next.column}` : 'the end'
    },
    done: () => at >= found.length,
  }
}

/** Index of a full or three-letter name, which is taken; undefined when there is none. */
export function takeName(words: CalendarWords, names: readonly string[]): number | undefined {
  const short = names.map((name) => name.slice(0, 3))
  const taken = words.take(...names, ...short)
  return taken === undefined ? undefined : short.indexOf(taken.slice(0, 3))
}
