// Secrets in a text that comes in pieces: found in every common encoding (log.secret_plain), wherever the
// text is cut (log.secret_split).
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createStreamMask, maskText } from '@belfry/contract/stream-mask'

const secret = 's3cr3t/Value+<x> "ä"'
const inPieces = (text: string, values: readonly string[], lengths: readonly number[]): string => {
  const mask = createStreamMask(values)
  let out = ''
  let at = 0
  for (const length of [...lengths, text.length]) {
    out += mask.push(text.slice(at, at + length))
    at += length
  }
  return out + mask.flush()
}
const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('a secret is masked', () => {
  const encoded: Readonly<Record<string, string>> = {
    'as it is': secret,
    'in JSON': JSON.stringify({ a: secret }),
    'in JSON with ASCII alone': JSON.stringify(secret).replace('ä', '\\u00e4'),
    'in JSON that is harmless in HTML': JSON.stringify(secret)
      .replace('<', '\\u003c')
      .replace('>', '\\u003e'),
    'in JSON with slashes escaped': JSON.stringify(secret).replace('/', '\\/'),
    'in JSON within JSON': JSON.stringify(JSON.stringify(secret)),
    'in a URL': `https://example.com/?q=${encodeURIComponent(secret)}`,
    'in a URL with small letters': encodeURIComponent(secret).toLowerCase().replace('v', 'V'),
    'in a form': new URLSearchParams({ a: secret }).toString(),
    'in HTML': secret.replace('<', '&lt;').replace('>', '&gt;').replaceAll('"', '&quot;'),
    'in hex': Buffer.from(secret).toString('hex'),
    'in large hex': Buffer.from(secret).toString('hex').toUpperCase(),
    'in base64': base64(secret),
    'in base64 behind one byte': base64(`:${secret}`),
    'in base64 behind two bytes': base64(`a:${secret}`),
    'in base64 behind a user': base64(`user:${secret}:more`),
    'in base64 for URLs': Buffer.from(`user:${secret}`).toString('base64url'),
    'in base64 in a URL': encodeURIComponent(base64(`xx${secret}`)),
    // as Python's quote and encodeURI do it
    'in a URL with its slashes': encodeURIComponent(secret).replace('%2F', '/'),
    'in a URL with small and large letters': encodeURIComponent(secret).replace('%2F', '%2f'),
    'in a URL with every byte escaped': Buffer.from(secret).toString('hex').replace(/../g, '%$&'),
    'in a URL within a URL': encodeURIComponent(encodeURIComponent(secret)),
    'in HTML by numbers': secret.replace('<', '&#x3c;').replace('>', '&#062;').replaceAll('"', '&#34;'),
    'in HTML with quotes left': secret.replace('<', '&lt;').replace('>', '&gt;'),
    'in JSON with every unit escaped': secret.replace(
      /[^]/g,
      (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
    'in hex of both cases': Buffer.from(secret)
      .toString('hex')
      .replace(/[a-f]/, (a) => a.toUpperCase()),
    'in hex with colons': Buffer.from(secret).toString('hex').match(/../g)?.join(':') ?? '',
    'in hex with backslashes': Buffer.from(secret).toString('hex').replace(/../g, '\\x$&'),
  }
  it.each(Object.entries(encoded))('%s', (_, text) => {
    const masked = maskText(`before ${text} after`, [secret])
    expect(masked).toMatch(/^before .*\*\*\*.* after$/)
    // what is left of base64 at its two ends is less than a character of the secret
    expect(masked.length).toBeLessThanOrEqual('before *** after'.length + text.length / 2)
    expect(masked).not.toContain('s3cr3t')
    for (const length of [1, 2, 3, 7])
      expect(inPieces(`before ${text} after`, [secret], Array(200).fill(length))).toBe(masked)
  })

  it.each([0, 1, 2, 5, 13, 14, 15])('in base64 in lines, %i bytes behind another text', (before) => {
    const text = base64('x'.repeat(before) + secret + secret)
    for (const lineBreak of ['\n', '\r\n', '\\n'])
      for (const length of [8, 16, 20]) {
        const lines = text.match(new RegExp(`.{1,${length}}`, 'g'))?.join(lineBreak) ?? ''
        const masked = maskText(lines, [secret])
        const rest = lines.slice(0, Math.ceil((before * 8) / 6) + 4 * lineBreak.length).length
        expect(masked.length).toBeLessThanOrEqual('***'.length * 2 + rest + 12)
        expect(inPieces(lines, [secret], Array(200).fill(3))).toBe(masked)
      }
  })

  it('in base64 that it is itself, without what fills it up, in both alphabets, and of a key', () => {
    const value = '+/8aWqVz1/+4dA=='
    for (const text of ['+/8aWqVz1/+4dA', '-_8aWqVz1_-4dA', '%2B/8aWqVz1%2f+4dA', '-_8aWqVz1_-4dA=='])
      for (const given of [value, value.replaceAll('+', '-').replaceAll('/', '_'), `whsec_${value}`])
        expect(maskText(`so ${text}, yes`, [given])).toMatch(/^so \*{3}(?:==)?, yes$/)
  })

  it('with apostrophes in every spelling', () => {
    for (const each of ["'", '&#x27;', '&#039;', '&#39;', '&apos;', '\\u0027', "\\'", '%27', '\\\\u0027'])
      expect(maskText(`<b>it${each}s &quot;so&quot;</b>`, [`it's "so"`])).toBe('<b>***</b>')
  })

  it('line by line where it has several', () => {
    const pem = `-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEA\n-----END KEY-----`
    const masked = maskText('at MIIEvQIBADANBgkqhkiG9w0\nthen BAQEFAASCBKcwggSjAgEA; -----END KEY-----', [
      pem,
    ])
    expect(masked).toBe('at ***\nthen ***; -----END KEY-----')
  })

  it('also where two of them overlap or touch', () => {
    expect(maskText('xabcdefghijk', ['abcdefgh', 'efghijk'])).toBe('x***')
    expect(maskText('abcdefghabcdefgh!', ['abcdefgh'])).toBe('***!')
  })

  it('with its beginning, where the text was cut', () => {
    expect(maskText('and s3cr3t/Va', [secret], true)).toBe('and ***')
    expect(maskText('and s3cr3t/Va', [secret])).toBe('and s3cr3t/Va')
    expect(maskText('and s3c', [secret], true)).toBe('and s3c')
  })
})

it('ordinary text goes out at once and unchanged', () => {
  const mask = createStreamMask([secret])
  expect(mask.push('nothing to hide here\n')).toBe('nothing to hide here\n')
  expect(mask.push('about to tell: s3cr')).toBe('about to tell: ')
  expect(mask.push('ipt')).toBe('s3cript')
  expect(mask.flush()).toBe('')
  expect(createStreamMask([]).push('x')).toBe('x')
})

it('gives the same however the text is cut', () => {
  const values = fc.array(
    fc.string({ unit: fc.constantFrom('a', 'b', '/', '<'), minLength: 4, maxLength: 9 }),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  const text = fc.string({ unit: fc.constantFrom('a', 'b', '/', '<', '%2F', 'YWJ', '6162'), maxLength: 60 })
  fc.assert(
    fc.property(
      values,
      text,
      fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 40 }),
      (secrets, whole, cuts) => {
        const masked = maskText(whole, secrets)
        expect(inPieces(whole, secrets, cuts)).toBe(masked)
        for (const value of secrets) expect(masked).not.toContain(value)
      },
    ),
    { numRuns: 300 },
  )
})
