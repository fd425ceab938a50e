/**
 * The ways in which a secret may show in a log or an answer: as it is, line by line, and as JSON, URLs, HTML,
 * hex and base64 write it. Who writes such a text chooses for each character whether it is escaped, and how;
 * so a form is a list of units, each with every text that may stand for it, and not one text.
 *
 * Base64 at three offsets, because what stands before it moves its bits: of `base64("user:" + secret)` no
 * letter is a letter of `base64(secret)`.
 */

/** A shorter text would be found in every other word. */
const leastForm = 4
/** A line of a longer secret, such as a key in PEM, that is taken for one by itself. */
const leastLine = 12
/** Letters of base64, at least, before it may be broken into lines: what ends a line is else held back. */
const leastUnbroken = 4

/** Texts that may stand for one character, letter or digit, by the code that they begin with. */
type Unit = ReadonlyMap<number, readonly string[]>

export interface SecretForm {
  readonly units: readonly Unit[]
  /** What may stand between this unit and the one before it. */
  readonly gapsBefore: (index: number) => readonly string[]
}

const none: readonly string[] = []
const unbroken = (): readonly string[] => none
const unitFrom = (texts: readonly string[]): Unit => Map.groupBy(new Set(texts), (each) => each.charCodeAt(0))

/** Every form of these values. */
export function secretForms(values: Iterable<string>): readonly SecretForm[] {
  const texts = new Set<string>()
  for (const value of values)
    for (const text of [value, value.trim(), ...linesOf(value), ...keyOf(value.trim())])
      if (text.length >= leastForm) texts.add(text)
  const unitOf = remembered((character) => unitFrom(textsOf(character)))
  return [...texts].flatMap((text) => formsOf(text, unitOf))
}

/** Logs come in lines, so a secret of several lines shows in pieces. */
function linesOf(value: string): readonly string[] {
  if (!/[\r\n]/.test(value)) return []
  return value
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line.length >= leastLine && !/^-----(?:BEGIN|END) /.test(line))
}

/** A signing key without what says its kind, and base64 without what fills it up. */
function keyOf(value: string): readonly string[] {
  const key = value.replace(/^wh(?:sec|sk)_/, '')
  return isBase64(key) ? [key, key.replace(/=+$/, '')] : []
}

const isBase64 = (text: string): boolean => /^[A-Za-z0-9+/_-]+={0,2}$/.test(text)

function formsOf(text: string, unitOf: (character: string) => Unit): readonly SecretForm[] {
  const bytes = Buffer.from(text, 'utf8')
  const characters = Array.from(text)
  // a value that is base64 itself may be written in the other alphabet
  const units = isBase64(text) ? characters.map(letterUnit) : characters.map(unitOf)
  const hex = Array.from(bytes.toString('hex'), (digit) => hexUnit(digit))
  return [{ units, gapsBefore: unbroken }, { units: hex, gapsBefore: betweenBytes }, ...base64Forms(bytes)]
}

function remembered<Value>(make: (text: string) => Value): (text: string) => Value {
  const known = new Map<string, Value>()
  return (text) => {
    const value = known.get(text) ?? make(text)
    known.set(text, value)
    return value
  }
}

const shortEscapes: Readonly<Record<string, readonly string[]>> = {
  '"': ['\\"'],
  "'": ["\\'"],
  '\\': ['\\\\'],
  '/': ['\\/'],
  '\b': ['\\b'],
  '\f': ['\\f'],
  '\n': ['\\n'],
  '\r': ['\\r'],
  '\t': ['\\t'],
}

const htmlNames: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
  '/': '&sol;',
  '+': '&plus;',
  '=': '&equals;',
}

const inBothCases = (make: (hex: string) => string, hex: string): readonly string[] => [
  make(hex.toLowerCase()),
  make(hex.toUpperCase()),
]

/** As it is, and as JSON (within JSON too), URLs, forms and HTML write it. */
function textsOf(character: string): readonly string[] {
  const code = character.codePointAt(0) ?? 0
  const bytes = [...Buffer.from(character, 'utf8')].map((byte) => byte.toString(16).padStart(2, '0'))
  const halves = character.split('').map((half) => half.charCodeAt(0).toString(16).padStart(4, '0'))
  const short = shortEscapes[character] ?? none
  const inJson = [...short, ...inBothCases((hex) => hex.replace(/.{4}/g, '\\u$&'), halves.join(''))]
  const inUrl = inBothCases((hex) => hex.replace(/../g, '%$&'), bytes.join(''))
  const inText = code < 0x100 ? inBothCases((hex) => `\\x${hex}`, code.toString(16).padStart(2, '0')) : none
  const name = htmlNames[character]
  return [
    character,
    ...inJson,
    ...inJson.map((each) => JSON.stringify(each).slice(1, -1)),
    ...inUrl,
    ...inUrl.map((each) => each.replaceAll('%', '%25')),
    ...inText,
    ...(character === ' ' ? ['+'] : none),
    ...(name === undefined ? none : [name]),
    ...inHtml(code),
  ]
}

/** By number, with zeros in front as some writers have them. */
function inHtml(code: number): readonly string[] {
  const decimal = [0, 2, 3, 4, 5].map((length) => `&#${String(code).padStart(length, '0')};`)
  const hex = [0, 2, 3, 4, 5].flatMap((length) => {
    const digits = code.toString(16).padStart(length, '0')
    return [...inBothCases((each) => `&#x${each};`, digits), `&#X${digits.toUpperCase()};`]
  })
  return [...decimal, ...hex]
}

const hexUnit = remembered((digit) => unitFrom([digit, digit.toUpperCase()]))
const bytesApart = [':', '-', ' ', '\\x']
const betweenBytes = (index: number): readonly string[] => (index > 0 && index % 2 === 0 ? bytesApart : none)

const plus = [...textsOf('+'), '-']
const slash = [...textsOf('/'), '_']
const lettersOf: Readonly<Record<string, readonly string[]>> = {
  '+': plus,
  '-': [...textsOf('-'), ...plus],
  '/': slash,
  _: [...textsOf('_'), ...slash],
}
/** Of a value that is base64, in both alphabets. */
const letterUnit = remembered((letter) => unitFrom(lettersOf[letter] ?? textsOf(letter)))
/** Of base64 that was made of a value: nobody escapes what needs none. */
const madeLetterUnit = remembered((letter) => unitFrom(lettersOf[letter] ?? [letter]))

const lineBreaks = ['\n', '\r\n', '\\n', '\\r\\n']

/**
 * The letters that the secret alone decides; the two at its ends carry some bits of their neighbours. Lines
 * of base64 end where four letters do. Where that is soon after the first letter, the rest is a form too.
 */
function base64Forms(bytes: Buffer): readonly SecretForm[] {
  return [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64')
    const end = Math.floor(((offset + bytes.length) * 8) / 6)
    return [...new Set([Math.ceil((offset * 8) / 6), offset === 0 ? 0 : 4])].flatMap((begin) => {
      const units = Array.from(encoded.slice(begin, end), (letter) => madeLetterUnit(letter))
      const mayBreak = (index: number): boolean => index >= leastUnbroken && (begin + index) % 4 === 0
      const gapsBefore = (index: number): readonly string[] => (mayBreak(index) ? lineBreaks : none)
      return units.length < leastForm ? [] : [{ units, gapsBefore }]
    })
  })
}
