// Which secrets are too weak for production and for people, and which are not: a check that refuses what a
// password manager makes would be turned off.
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { secretFault } from '../../packages/server/src/domain/secret-strength.ts'

describe('a secret', () => {
  it.each([
    '',
    '   ',
    'short',
    'changeme',
    'changeme-changeme',
    'CHANGE_ME_CHANGE_ME',
    'your-secret-key-here',
    'passwordpassword',
    'supersecretpassword1',
    'aaaaaaaaaaaaaaaaaaaaaaaa',
    'abcabcabcabcabcabcabcabc',
    '0123456789abcdef0123456789abcdef',
    'abcdefghijklmnopqrstuvwxyz',
    '1234567890123456',
    'qwertyuiopasdfghjkl',
    'belfry-admin-secret-2026',
    '00000000-0000-0000-0000-000000000000',
    'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    'secret_secret_secret',
    'deadbeefdeadbeefdeadbeef',
  ])('%j is refused', (secret) => {
    const fault = secretFault(secret)
    expect(fault).toBeDefined()
    expect(fault).not.toContain(secret.trim() || secret.padEnd(9))
  })

  it('that is random is taken, in every common form', () => {
    for (let round = 0; round < 2_000; round++) {
      const bytes = randomBytes(24)
      for (const form of ['hex', 'base64', 'base64url'] as const)
        expect(secretFault(bytes.toString(form)), bytes.toString(form)).toBeUndefined()
      expect(secretFault(randomBytes(12).toString('base64'))).toBeUndefined()
    }
  })

  it.each([
    'gull-harbour-41-lantern',
    'quiet river 7 of copper',
    'Tr0ub4dor&3-is-not-it',
    'чайка-маяк-фонарь-41',
  ])('%s is taken as a password', (password) => {
    expect(secretFault(password, { minLength: 12 })).toBeUndefined()
  })

  it('that is made of what is known of its owner is refused', () => {
    const related = ['ada.lovelace@example.com', 'Ada Lovelace', 'acme']
    for (const password of ['lovelace-acme-1', 'AdaLovelace2026', 'ada.lovelace@example.com'])
      expect(secretFault(password, { minLength: 12, related }), password).toBeDefined()
    expect(secretFault('gull-harbour-41-lantern', { minLength: 12, related })).toBeUndefined()
  })

  it('in PEM is left to its parser', () => {
    expect(secretFault('-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----')).toBeUndefined()
  })
})
