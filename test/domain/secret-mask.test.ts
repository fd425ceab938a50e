// What is masked in what is kept of an attempt, and what is left alone.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maskKeys, maskKeysInJson, secretValues } from '../../packages/server/src/domain/secret-mask.ts'
import { maskText } from '@belfry/contract/stream-mask'

const key = 'bfy_0123456789ab_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE'

describe('API keys', () => {
  test('keep the part that tells them apart, wherever they stand', () => {
    expect(maskKeys(`a ${key}, and "${key}"`)).toBe('a bfy_0123456789ab_***, and "bfy_0123456789ab_***"')
    expect(maskKeys('bfy_ is how they begin')).toBe('bfy_ is how they begin')
    expect(maskKeysInJson({ deep: [{ [key]: key }], n: 1 })).toEqual({
      deep: [{ 'bfy_0123456789ab_***': 'bfy_0123456789ab_***' }],
      n: 1,
    })
    const value = { plain: true }
    expect(maskKeysInJson(value)).toBe(value)
  })

  test('are masked where the text was cut inside of one', () => {
    expect(maskKeys(key.slice(0, 30))).toBe('bfy_0123456789ab_***')
  })
})

describe('secret headers', () => {
  test('show by value, by their parts, and as JSON and URLs write them', () => {
    const texts = secretValues({
      Authorization: 'Bearer tok/en="1234567"',
      'X-Api-Key': 'k-1234',
      Cookie: 'session=abcdef123456; theme=dark',
      'Content-Type': 'application/json',
    })
    const mask = (text: string) => maskText(text, texts)
    expect(mask('got Bearer tok/en="1234567"')).toBe('got ***')
    expect(mask('token tok/en="1234567" is wrong')).toBe('token *** is wrong')
    expect(mask(JSON.stringify({ auth: 'Bearer tok/en="1234567"' }))).toBe('{"auth":"***"}')
    expect(mask(encodeURIComponent('tok/en="1234567"'))).toBe('***')
    expect(mask('k-1234, abcdef123456')).toBe('***, ***')
    expect(mask('application/json, theme, dark, Bearer')).toBe('application/json, theme, dark, Bearer')
  })

  test('of basic authentication show by the password too', () => {
    const texts = secretValues({ authorization: `Basic ${btoa('me:open-sesame')}` })
    expect(maskText('the password open-sesame of me', texts)).toBe('the password *** of me')
    expect(secretValues({ authorization: 'Basic ???' })).toContain('Basic ???')
  })

  test('that are too short to be told from words are left', () => {
    expect(secretValues({ token: 'abc' })).toEqual([])
  })

  test('are masked where the text was cut inside of one, and only then', () => {
    const texts = secretValues({ token: 'correct-horse-battery' })
    expect(maskText('so: correct-hor', texts, true)).toBe('so: ***')
    expect(maskText('so: correct-hor', texts)).toBe('so: correct-hor')
    expect(maskText('so: cor', texts, true)).toBe('so: cor')
  })

  test('never show whole, whatever stands around them and wherever the text is cut', () => {
    const secret = fc.string({
      minLength: 12,
      maxLength: 40,
      unit: fc.constantFrom('a', 'b', '-', '.', '_', '/', '+', '='),
    })
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), fc.nat(200), (value, before, after, cutAt) => {
        const trimmed = value.trim()
        const texts = secretValues({ 'x-token': value })
        const whole = `${before}${value}${after}`
        expect(maskText(whole, texts)).not.toContain(trimmed)
        const cut = maskText(whole.slice(0, cutAt), texts, true)
        expect(cut).not.toContain(trimmed.slice(0, 11))
      }),
    )
  })
})
