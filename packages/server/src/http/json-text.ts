/**
 * Reads a JSON body strictly, before anything else looks at it. It finds what JSON.parse reports badly or
 * lets pass: the line and column of an error, nesting that would exhaust a later walk, a key given twice,
 * `__proto__`, whole numbers that JavaScript would round, and half characters that Postgres would refuse. One
 * pass over the text, no recursion.
 */
import type { ErrorCode, JsonValue } from '@belfry/contract'
import { maxJsonDepth } from '@belfry/contract'

export type JsonTextFault = {
  readonly code: Extract<ErrorCode, 'malformed_json' | 'invalid_request'>
  readonly pointer: string
  readonly message: string
}

type Frame = { readonly keys: Set<string> | undefined; name: string | number }
/**
 * What may come next: a value, a value or the end of a list, a key, a key or the end of an object, a comma or
 * an end.
 */
type Expect = 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'commaOrEnd'

const words: Readonly<Record<Expect, string>> = {
  value: 'a value',
  valueOrEnd: 'a value or "]"',
  key: 'a key in double quotes',
  keyOrEnd: 'a key in double quotes or "}"',
  commaOrEnd: 'a comma or the end of the list or object',
}

const space = /[ \t\n\r]*/y
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y

/** The value of a JSON text, or what is wrong with it. */
export function readJsonText(
  text: string,
): { readonly value: JsonValue } | { readonly fault: JsonTextFault } {
  const plain = readPlain(text)
  if (plain !== undefined) return { value: plain }
  const fault = check(text)
  return fault === undefined ? { value: JSON.parse(text) as JsonValue } : { fault }
}

/**
 * The quick way for what programs send: where a text is, to the character, what its own value is written as,
 * no key was given twice and no number was rounded. Undefined: look closer.
 */
function readPlain(text: string): JsonValue | undefined {
  if (notPlain.test(text) || depthOfPlain(text) > maxJsonDepth) return undefined
  try {
    const value = JSON.parse(text) as JsonValue
    return JSON.stringify(value) === text ? value : undefined
  } catch {
    return undefined
  }
}

/** Escapes, a key that may not be used, and numbers that may be beyond 2^53. */
const notPlain = /\\|__proto__|\d{16}/

/** Of a text without escapes. */
function depthOfPlain(text: string): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === 0x22) inString = !inString
    else if (inString) continue
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x7d || code === 0x5d) depth -= 1
  }
  return deepest
}

function check(text: string): JsonTextFault | undefined {
  const frames: Frame[] = []
  let at = skip(text, 0)
  let expect: Expect = 'value'
  const close = (): void => {
    frames.pop()
    expect = 'commaOrEnd'
  }

  for (;;) {
    if (expect === 'commaOrEnd' && frames.length === 0)
      return at === text.length ? undefined : trailing(text, at)
    const character = text[at]
    const frame = frames.at(-1)
    if (expect === 'commaOrEnd') {
      if (character === ',') {
        if (frame?.keys === undefined) bump(frame)
        expect = frame?.keys === undefined ? 'value' : 'key'
      } else if (character === (frame?.keys === undefined ? ']' : '}')) close()
      else return malformed(text, at, expect)
      at = skip(text, at + 1)
    } else if (expect === 'key' || expect === 'keyOrEnd') {
      if (character === '}' && expect === 'keyOrEnd') {
        close()
        at = skip(text, at + 1)
        continue
      }
      const end = match(string, text, at)
      if (end === undefined) return malformed(text, at, expect)
      const fault = takeKey(text.slice(at, end), frames)
      if (fault !== undefined) return fault
      at = skip(text, end)
      if (text[at] !== ':') return malformed(text, at, 'commaOrEnd', 'a colon after the key')
      at = skip(text, at + 1)
      expect = 'value'
    } else if (character === '{' || character === '[') {
      if (frames.length === maxJsonDepth) return tooDeep(frames)
      frames.push({ keys: character === '{' ? new Set() : undefined, name: character === '{' ? '' : 0 })
      expect = character === '{' ? 'keyOrEnd' : 'valueOrEnd'
      at = skip(text, at + 1)
    } else if (character === ']' && expect === 'valueOrEnd') {
      close()
      at = skip(text, at + 1)
    } else {
      const end = match(character === '"' ? string : scalar, text, at)
      if (end === undefined) return malformed(text, at, expect)
      const fault = scalarFault(text.slice(at, end), frames)
      if (fault !== undefined) return fault
      expect = 'commaOrEnd'
      at = skip(text, end)
    }
  }
}

function bump(frame: Frame | undefined): void {
  if (frame !== undefined && typeof frame.name === 'number') frame.name += 1
}

function takeKey(quoted: string, frames: readonly Frame[]): JsonTextFault | undefined {
  const frame = frames.at(-1)
  const key = JSON.parse(quoted) as string
  if (frame?.keys === undefined) return undefined
  const twice = frame.keys.has(key)
  frame.keys.add(key)
  frame.name = key
  if (!key.isWellFormed())
    return invalid(frames.slice(0, -1), 'has a key with half of a surrogate pair; send whole characters')
  if (key === '__proto__') return invalid(frames, 'is not a key that may be used; choose another')
  return twice ? invalid(frames, 'is given twice; keep one') : undefined
}

function scalarFault(token: string, frames: readonly Frame[]): JsonTextFault | undefined {
  if (token.startsWith('"')) {
    const whole = !token.includes('\\u') || (JSON.parse(token) as string).isWellFormed()
    return whole ? undefined : invalid(frames, 'has half of a surrogate pair; send whole Unicode characters')
  }
  // Only the input takes any JSON; every other field has limits far below, or takes no number at all.
  const fix =
    frames[0]?.name === 'input'
      ? 'send it as a string'
      : 'give one within the limits of the field (only "input" takes larger ones, as strings)'
  if (/^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token))) {
    return invalid(frames, `is a whole number beyond 2^53, which would be rounded; ${fix}`)
  }
  const infinite = /\d/.test(token) && !Number.isFinite(Number(token))
  return infinite ? invalid(frames, `is too large for a number; ${fix}`) : undefined
}

function skip(text: string, from: number): number {
  space.lastIndex = from
  space.exec(text)
  return space.lastIndex
}

function match(pattern: RegExp, text: string, from: number): number | undefined {
  pattern.lastIndex = from
  return pattern.exec(text) === null ? undefined : pattern.lastIndex
}

function pointerOf(frames: readonly Frame[]): string {
  return frames.map(({ name }) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

function invalid(frames: readonly Frame[], message: string): JsonTextFault {
  return { code: 'invalid_request', pointer: pointerOf(frames), message }
}

function tooDeep(frames: readonly Frame[]): JsonTextFault {
  return invalid(frames.slice(0, 3), `is nested deeper than ${maxJsonDepth} levels; flatten it`)
}

function placeOf(text: string, at: number): string {
  const before = text.slice(0, at)
  const line = before.split('\n').length
  return `line ${line}, column ${at - before.lastIndexOf('\n')}`
}

function malformed(text: string, at: number, expect: Expect, wanted = words[expect]): JsonTextFault {
  const found = at >= text.length ? 'the text ends' : `there is ${JSON.stringify(text.slice(at, at + 1))}`
  return {
    code: 'malformed_json',
    pointer: '',
    message: `at ${placeOf(text, at)} ${found} where ${wanted} was expected`,
  }
}

function trailing(text: string, at: number): JsonTextFault {
  return {
    code: 'malformed_json',
    pointer: '',
    message: `at ${placeOf(text, at)} something follows the end of the JSON value`,
  }
}
