/**
 * Text for terminals: width in cells, cutting, padding, and making what others wrote harmless. Names, errors
 * and responses come from outside; control, bidirectional and invisible characters in them are shown, never
 * sent.
 */

const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Bidi_Control}\u200b\u2060\ufeff]/gu
const wideScripts = ['Han', 'Hiragana', 'Katakana', 'Hangul'].map((name) => `\\p{Script=${name}}`).join('')
const wide = new RegExp(
  `\\p{Emoji_Presentation}|\ufe0f|[${wideScripts}\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]`,
  'u',
)
const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001b': '\\e' }

function shown(character: string): string {
  return short[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}

/** One line in which every character that a terminal would act on is written out. */
export function plain(text: string): string {
  return text.replace(unsafe, shown)
}

/** As `plain`, but line breaks and tabs stay. CR LF counts as a line break. */
export function plainLines(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(unsafe, (character) => (character === '\n' || character === '\t' ? character : shown(character)))
}

/** Cells that a text takes on a terminal. */
export function cellWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let cells = 0
  for (const { segment } of segmenter.segment(text)) cells += wide.test(segment) ? 2 : 1
  return cells
}

/** At most `cells` wide; what is cut off is marked by "…". */
export function cut(text: string, cells: number): string {
  if (cellWidth(text) <= cells) return text
  let kept = ''
  let used = 0
  for (const { segment } of segmenter.segment(text)) {
    const next = cellWidth(segment)
    if (used + next > cells - 1) break
    kept += segment
    used += next
  }
  return cells <= 0 ? '' : `${kept}…`
}

/** Filled with spaces to `cells`. */
export function pad(text: string, cells: number, side: 'left' | 'right' = 'left'): string {
  const space = ' '.repeat(Math.max(0, cells - cellWidth(text)))
  return side === 'left' ? text + space : space + text
}

/** Words broken into lines of at most `cells`; a longer word stands alone. */
export function wrap(text: string, cells: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (line !== '' && cellWidth(longer) > cells) {
      lines.push(line)
      line = word
    } else line = longer
  }
  return [...lines, line]
}
