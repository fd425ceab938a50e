/**
 * Takes secrets out of a text that comes in pieces: `***` stands for every stretch that a secret, in any of
 * its forms (secret-forms.ts), covers. However the text is cut into pieces, what comes out in all is the
 * same.
 *
 * 1. A piece is joined to what was held back of the pieces before.
 * 2. Every occurrence of every form is found, also where they overlap; what they cover is one stretch.
 * 3. The longest end that some form begins with may become a secret yet: it is held back. Nothing before it
 *    can, so that goes out. Ordinary text is thereby never delayed.
 *
 * An edge of this package of its own (`@belfry/contract/stream-mask`), because it needs Node. A list of
 * values is taken as it is when it is first given.
 */
import type { JsonValue } from './common.ts'
import { secretMask } from './http-headers.ts'
import { type SecretForm, secretForms } from './secret-forms.ts'

/** Less than this of a secret at the end of a text that was cut is left there. */
const leastRest = 4

export interface StreamMask {
  /** What can go out now; the rest is held back until the next piece or the end. */
  push(chunk: string): string
  /**
   * What was held back. `cut`: the text went on where it came from, so a secret's beginning is masked too.
   */
  flush(options?: { readonly cut?: boolean }): string
}

type Span = readonly [begin: number, end: number]

export function createStreamMask(values: Iterable<string>): StreamMask {
  const forms = formsOf(values)
  let held = ''
  /** Where in `held` the mask that went out last ends; -1 where something else went out after it. */
  let masked = -1

  function take(text: string, { spans }: Found, until: number): string {
    let out = ''
    let at = Math.max(0, Math.min(masked, until))
    for (const [begin, end] of spans) {
      if (begin >= until) break
      out += text.slice(at, begin)
      // a stretch that touches the one before it is the same stretch
      if (begin > masked) out += secretMask
      masked = Math.max(masked, end)
      at = Math.max(at, Math.min(end, until))
    }
    out += text.slice(at, until)
    masked = Math.max(-1, masked - until)
    held = text.slice(until)
    return out
  }

  return {
    push: (chunk) => {
      if (forms.all.length === 0) return chunk
      const text = held + chunk
      const found = search(text, forms)
      return take(text, found, found.openAt)
    },
    flush: ({ cut = false } = {}) => {
      const text = held
      const found = search(text, forms)
      const rest = cut ? text.length - found.openAt : 0
      const end =
        rest >= leastRest ? Math.max(text.length - rest, Math.min(masked, text.length)) : text.length
      const out = take(text, found, end)
      const isOpen = end < text.length && masked < 0
      held = ''
      masked = -1
      return isOpen ? out + secretMask : out
    },
  }
}

/** A whole text at once. `cut`: it went on where it came from. */
export function maskText(text: string, values: Iterable<string>, cut = false): string {
  const mask = createStreamMask(values)
  return mask.push(text) + mask.flush({ cut })
}

/** Forms by what they may begin with, so that nearly every place of a text is passed at once. */
interface Forms {
  readonly all: readonly SecretForm[]
  readonly byStart: ReadonlyMap<string, readonly SecretForm[]>
  /** By the mark of a start: 0 where no form has it. Read first, because it is read for every place. */
  readonly marks: Uint8Array
}

const startLength = 3
const markCount = 8_192

const markAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) * 31 + text.charCodeAt(at + 2)) & (markCount - 1)

function formsFrom(all: readonly SecretForm[]): Forms {
  const byStart = new Map<string, SecretForm[]>()
  const marks = new Uint8Array(markCount)
  for (const form of all) {
    for (const start of startsOf(form)) {
      marks[markAt(start, 0)] = 1
      const before = byStart.get(start)
      if (before === undefined) byStart.set(start, [form])
      else before.push(form)
    }
  }
  return { all, byStart, marks }
}

/** The first characters, in each way in which they may be written. */
function startsOf({ units, gapsBefore }: SecretForm): ReadonlySet<string> {
  const starts = new Set<string>()
  let shorter: readonly string[] = ['']
  for (const [index, unit] of units.entries()) {
    const texts = [...unit.values()].flat()
    const longer = shorter.flatMap((begin) =>
      ['', ...gapsBefore(index)].flatMap((gap) => texts.map((text) => begin + gap + text)),
    )
    for (const each of longer) if (each.length >= startLength) starts.add(each.slice(0, startLength))
    shorter = longer.filter((each) => each.length < startLength)
    if (shorter.length === 0) break
  }
  return starts
}

const knownForms = new WeakMap<object, Forms>()

/** Made once for a list, since the same one is asked for line by line. */
function formsOf(values: Iterable<string>): Forms {
  if (!Array.isArray(values)) return formsFrom(secretForms(values))
  const forms = knownForms.get(values) ?? formsFrom(secretForms(values))
  knownForms.set(values, forms)
  return forms
}

/** In every text of a JSON value, names of fields too, and numbers that are written like a secret. */
export function maskJson(value: JsonValue, values: readonly string[]): JsonValue {
  if (values.length === 0 || value === null || typeof value === 'boolean') return value
  if (typeof value === 'string') return maskText(value, values)
  if (typeof value === 'number') {
    const masked = maskText(String(value), values)
    return masked === String(value) ? value : masked
  }
  if (isList(value)) return value.map((each) => maskJson(each, values))
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [maskText(key, values), maskJson(each, values)]),
  )
}

const isList = (value: JsonValue): value is readonly JsonValue[] => Array.isArray(value)

interface Found {
  /** What forms cover, in order. */
  readonly spans: readonly Span[]
  /** Where the longest end begins that may become some form yet; the length of the text where none may. */
  readonly openAt: number
}

function search(text: string, { all, byStart, marks }: Forms): Found {
  const spans: Span[] = []
  let openAt = text.length
  for (let at = 0; at < text.length; at += 1) {
    const isWhole = text.length - at >= startLength
    if (isWhole && marks[markAt(text, at)] === 0) continue
    const forms = isWhole ? byStart.get(text.slice(at, at + startLength)) : all
    for (const form of forms ?? []) {
      const { end, isOpen } = follow(text, at, form)
      if (end > at) spans.push([at, end])
      if (isOpen) openAt = Math.min(openAt, at)
    }
  }
  return { spans, openAt }
}

/**
 * How far a form goes from here on: its longest end, -1 where it does not stand here. `isOpen`: the text ends
 * before that is sure.
 */
function follow(text: string, begin: number, { units, gapsBefore }: SecretForm) {
  let ends = [begin]
  let isOpen = false
  for (const [index, unit] of units.entries()) {
    const gaps = gapsBefore(index)
    const begins = gaps.length === 0 ? ends : [...ends]
    for (const at of ends) if (pass(text, at, gaps, begins)) isOpen = true
    const next: number[] = []
    for (const at of begins) {
      if (at === text.length || pass(text, at, unit.get(text.charCodeAt(at)) ?? [], next)) isOpen = true
    }
    if (next.length === 0) return { end: -1, isOpen }
    ends = next
  }
  return { end: Math.max(...ends), isOpen }
}

/** Adds where each of these ends that stands here. True: the text ends within one. */
function pass(text: string, at: number, texts: readonly string[], ends: number[]): boolean {
  let isOpen = false
  for (const each of texts) {
    const end = at + each.length
    if (text.startsWith(each, at)) {
      if (!ends.includes(end)) ends.push(end)
    } else if (end > text.length && each.startsWith(text.slice(at))) isOpen = true
  }
  return isOpen
}
