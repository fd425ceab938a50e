/**
 * Formats of text in an input schema. Each is judged in time linear in the length of the text, since both
 * come from outside.
 */
import type { inputFormats } from '@belfry/contract'

type InputFormat = (typeof inputFormats)[number]

const dateTime = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/
const time = /^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$/
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const formats: Readonly<Record<InputFormat, { fits: (text: string) => boolean; words: string }>> = {
  'date-time': {
    fits: (text) => dateTime.test(text) && isDay(text.slice(0, 10)) && !Number.isNaN(Date.parse(text)),
    words: 'an instant; write it like 2026-12-01T02:30:00Z',
  },
  date: { fits: isDay, words: 'a date; write it like 2026-12-01' },
  time: { fits: (text) => time.test(text), words: 'a time of day; write it like 02:30:00' },
  email: { fits: isEmail, words: 'an email address; write it like ada@example.com' },
  uri: {
    fits: (text) => !/\s/.test(text) && URL.canParse(text),
    words: 'a URI; write it like https://example.com/path',
  },
  uuid: {
    fits: (text) => uuid.test(text),
    words: 'a UUID; write it like 019ad0c1-7f3e-7c63-9a52-6e4d8c1b2a3f',
  },
}

/** Why a text is not of a format, with the fix; undefined where it is. */
export function formatFault(format: InputFormat, text: string): string | undefined {
  const { fits, words } = formats[format]
  return fits(text) ? undefined : `is not ${words}`
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false
  const atMs = Date.parse(`${text}T00:00:00Z`)
  // a day that is not there, like 30 February, comes out as another one
  return !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(text)
}

function isEmail(text: string): boolean {
  const [name = '', host = '', ...more] = text.split('@')
  const isHost = host.includes('.') && !host.startsWith('.') && !host.endsWith('.')
  return more.length === 0 && name !== '' && isHost && !/[\s,;<>()]/.test(text) && text.length <= 254
}
