/**
 * Why a secret is too weak to stand between a stranger and the server: empty, short, written in somebody's
 * documentation, or easily guessed. Used for what an operator configures (in production) and for passwords
 * that people choose. The answer never holds the secret.
 */

/** For secrets that a program uses: 16 random characters are 64 bits at least. */
export const minSecretLength = 16

/** Values that stand in documentation or are the defaults of others, in lower case and without separators. */
const documented: ReadonlySet<string> = new Set([
  'accesstoken',
  'averylongsecretkey',
  'belfrysecretkey',
  'changemechangeme',
  'changemeinproduction',
  'correcthorsebatterystaple',
  'defaulttoken',
  'dontusethisinproduction',
  'examplesecretkey',
  'insecuredevelopmentkey',
  'keyboardcat',
  'mysecretpassword',
  'mysupersecretpassword',
  'notasecret',
  'pleasechangeme',
  'replacemewitharandomvalue',
  'supersecretpassword',
  'thisisasecret',
  'verysecretpassword',
  'wjalrxutnfemik7mdengbpxrficyexamplekey',
  'yoursecretkeyhere',
])

/** What remains of a guessable secret without these is nearly nothing. */
const commonWords = new RegExp(
  [
    'pass(word|wd|phrase)?|passwort|secret|change ?me|admin(istrator)?|letmein|welcome|belfry',
    'default|example|insecure|please|postgres|redis|kafka|test|token|qwerty|qwertz|asdf',
    'dragon|monkey|master|login|root|guest|user|dev(elopment)?|prod(uction)?|super|very|my',
    'your|key|this|is|not?|the|replace|with|here|value|random|todo|xxx+|foo|bar|baz|iloveyou',
    'football|baseball|sunshine|princess|shadow|trustno1|(19|20)\\d\\d',
  ].join('|'),
  'g',
)

const rows = ['qwertyuiop', 'qwertzuiop', 'asdfghjkl', 'zxcvbnm', 'yxcvbnm', '1234567890', 'azertyuiop']

const keysOf = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** The shortest part that the text is a repetition of. */
function periodOf(text: string): string {
  const at = `${text}${text}`.indexOf(text, 1)
  return text.slice(0, at)
}

/** How many characters follow the one before in the alphabet, on the keyboard, or are the same again. */
function predictable(text: string): number {
  let count = 0
  for (let index = 1; index < text.length; index++) {
    const before = text[index - 1] ?? ''
    const step = text.charCodeAt(index) - before.charCodeAt(0)
    const pair = `${before}${text[index] ?? ''}`
    if (Math.abs(step) <= 1 || rows.some((row) => row.includes(pair))) count += 1
  }
  return count
}

/** Bits that the frequencies of its characters allow at most. */
function bitsOf(text: string): number {
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  const { length } = text
  const perCharacter = [...counts.values()].reduce(
    (sum, count) => sum - (count / length) * Math.log2(count / length),
    0,
  )
  return perCharacter * length
}

/**
 * What is wrong with the secret, in words that follow its name, or undefined. `related` holds what a guesser
 * would try first: a name, an e-mail address.
 */
export function secretFault(
  secret: string,
  { minLength = minSecretLength, related = [] as readonly string[] } = {},
): string | undefined {
  // a key in PEM has a form of its own, which its parser judges
  if (/^-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(secret)) return undefined
  if (secret.trim() === '') return 'is empty'
  if (secret.length < minLength) return `has ${secret.length} characters; it takes ${minLength} at least`
  const letters = keysOf(secret)
  if (documented.has(letters)) return 'is a value that stands in documentation, where everybody can read it'
  const lower = periodOf(secret.toLowerCase())
  const given = related
    .flatMap((words) => [keysOf(words), ...words.split(/[^A-Za-z0-9]+/).map(keysOf)])
    .filter((word) => word.length >= 4)
  const own = given.reduce((rest, word) => rest.replaceAll(word, ''), keysOf(lower))
  const rest = own.replaceAll(commonWords, '')
  const isGuessable =
    bitsOf(lower) < 28 ||
    predictable(lower) > (lower.length - 1) / 2 ||
    (rest.length < 6 && rest.length < letters.length)
  return isGuessable ? 'is easily guessed: it repeats itself, or is made of well-known words' : undefined
}
