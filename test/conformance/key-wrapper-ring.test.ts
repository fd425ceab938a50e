// The ring of master keys out of the configuration, held to the suite of wrappers; how its text is read; and
// the vault on top of it: what it seals opens nowhere else.
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { keyRingText, parseKeyRing } from '../../packages/server/src/domain/key-ring.ts'
import type { KeyWrapper } from '../../packages/server/src/ports/secrets.ts'
import { createRingWrapper } from '../../packages/server/src/security/secrets/key-ring.ts'
import { createVault } from '../../packages/server/src/security/secrets/vault.ts'
import { realClock } from '../support/real-clock.ts'
import { randomRing, vaultOn } from '../support/test-vault.ts'
import { describeKeyWrapper, faultOf, signal } from './key-wrapper.ts'

const ring = randomRing(7, 12)
const only = (number: number) => new Map([...ring].filter(([each]) => each === number))

describe('the ring', () => {
  describeKeyWrapper((older) => createRingWrapper(older === undefined ? ring : only(7)))

  it('says which key is missing, and which number stands for another key now', async () => {
    const wrapped = await createRingWrapper(ring).wrap(randomBytes(32), 't', signal)
    const missing = await faultOf(createRingWrapper(only(7)).unwrap(wrapped, 't', signal))
    expect(missing.message).toContain('ring:12 is not in BELFRY_SECRET_KEYS')
    const other = await faultOf(createRingWrapper(randomRing(12)).unwrap(wrapped, 't', signal))
    expect(other.message).toMatch(/does not open with ring:12.*another key/)
  })

  it('is read as it is written', () => {
    expect(parseKeyRing(keyRingText(ring))).toEqual(ring)
    expect(parseKeyRing(keyRingText(ring).trim().replaceAll('\n', ', '))).toEqual(ring)
  })

  const good = randomBytes(32).toString('base64')
  it.each([
    ['', 'is empty'],
    [good, 'write it like 2:<base64>'],
    ['1:', 'write it like'],
    [`0:${good}`, 'write it like'],
    [`1:${good.slice(0, 20)}`, 'it must be 32'],
    [`1:${Buffer.alloc(32).toString('base64')}`, 'not random'],
    [`1:${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`, 'not random'],
    [`1:${Buffer.from('correct horse battery staple 123').toString('base64')}`, 'not random'],
    [`1:${Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString('base64')}`, 'not random'],
    [
      `1:${Buffer.concat([randomBytes(16)].flatMap((half) => [half, half])).toString('base64')}`,
      'not random',
    ],
    [`1:${good},1:${good}`, 'the number 1 twice'],
    [`1:${good},2:x y`, 'key 2 of 3'],
  ])('refuses %s', (text, words) => {
    const fault = parseKeyRing(text)
    expect(fault).toEqual(expect.stringContaining(words))
    expect(fault).not.toContain(good.slice(0, 16))
  })
})

describe('the vault', () => {
  const place = { tenantId: 'a', secretId: 's', version: 1 }

  it('opens a value in its own place alone, and only whole', async () => {
    const vault = vaultOn(ring)
    const [key, foreign] = [await vault.newKey('a'), await vault.newKey('b')]
    const sealed = await vault.seal(key, place, 'the value – ä')
    expect(Buffer.from(sealed).includes('the value')).toBe(false)
    expect(await vault.open(key, place, sealed)).toBe('the value – ä')
    const moved = [
      vault.open(key, { ...place, secretId: 't' }, sealed),
      vault.open(key, { ...place, version: 2 }, sealed),
      vault.open(foreign, { ...place, tenantId: 'b' }, sealed),
      vault.open(key, { ...place, tenantId: 'b' }, sealed),
    ]
    for (const each of moved) expect((await faultOf(each)).code).toBe('secrets_unavailable')
    for (let index = 0; index < sealed.length; index++) {
      const changed = Buffer.from(sealed)
      changed.writeUInt8(changed.readUInt8(index) ^ 4, index)
      await expect(vault.open(key, place, changed)).rejects.toThrow('was changed or moved')
    }
    await expect(vault.open(key, place, sealed.subarray(0, 20))).rejects.toThrow('was changed or moved')
  })

  it('rewraps a key so that the older master key is needed no more', async () => {
    const before = vaultOn(only(7))
    const key = await before.newKey('a')
    const sealed = await before.seal(key, place, 'kept value')
    const both = vaultOn(ring)
    const rewrapped = await both.rewrap('a', key)
    expect(rewrapped.wrapperId).toBe('ring:12')
    const after = vaultOn(only(12))
    expect(await after.open(rewrapped, place, sealed)).toBe('kept value')
    expect((await faultOf(after.open(key, place, sealed))).message).toMatch(
      /ring:7, and this process has ring:12/,
    )
    expect((await faultOf(before.open(rewrapped, place, sealed))).code).toBe('secrets_unavailable')
    expect(after.unknown(['ring:7', 'ring:12', 'kms:x'])).toEqual(['ring:7', 'kms:x'])
  })

  it('asks the wrapper once for a key, however many want it', async () => {
    let asked = 0
    const wrapper = createRingWrapper(ring)
    const counting: KeyWrapper = { ...wrapper, unwrap: (...args) => (asked++, wrapper.unwrap(...args)) }
    const vault = createVault({ wrappers: [counting], clock: realClock })
    const key = await vault.newKey('a')
    const sealed = await vault.seal(key, place, 'some value')
    await Promise.all(Array.from({ length: 20 }, () => vault.open(key, place, sealed)))
    expect(asked).toBe(1)
  })

  it('without a master key says how to make one', async () => {
    const vault = createVault({ wrappers: [], clock: realClock })
    expect(vault.currentId).toBeUndefined()
    const fault = await faultOf(vault.newKey('a'))
    expect([fault.code, fault.status]).toEqual(['secrets_unavailable', 503])
    expect(fault.message).toContain('BELFRY_SECRET_KEYS')
  })
})
