// Passwords as they are kept in production: scrypt with N = 2^17, salted, checked with the parameters of each
// hash, and as much work for nobody as for somebody.
import { performance } from 'node:perf_hooks'
import { describe, expect, it } from 'vitest'
import { createPasswords } from '../../packages/server/src/security/passwords.ts'

const cheap = { logN: 10, r: 8, p: 1 }

describe('a password', () => {
  it('is kept as scrypt with N = 2^17, r = 8, p = 1, and proved by itself only', async () => {
    const passwords = createPasswords()
    const hash = await passwords.hash('gull-harbour-41-lantern')
    expect(hash).toMatch(/^scrypt\$17\$8\$1\$[\w-]{22}\$[\w-]{43}$/)
    const startedMs = performance.now()
    expect(await passwords.verify('gull-harbour-41-lantern', hash)).toBe(true)
    const rightMs = performance.now() - startedMs
    const nobodyMs = performance.now()
    expect(await passwords.verify('gull-harbour-41-lantern', null)).toBe(false)
    // the same work for nobody: never a small part of it
    expect(performance.now() - nobodyMs).toBeGreaterThan(rightMs / 10)
    expect(await passwords.verify('gull-harbour-41-lanterN', hash)).toBe(false)
  }, 30_000)

  it('has a salt of its own, and is checked with the parameters that it was kept with', async () => {
    const old = createPasswords({ cost: { logN: 9, r: 8, p: 1 } })
    const now = createPasswords({ cost: cheap })
    const [one, two] = await Promise.all([old.hash('same'), old.hash('same')])
    expect(one).not.toBe(two)
    expect(await now.verify('same', one)).toBe(true)
    expect(await now.verify('other', one)).toBe(false)
  })

  it('is the same however its letters were composed', async () => {
    const passwords = createPasswords({ cost: cheap })
    expect(await passwords.verify('caf\u00e9-au-lait', await passwords.hash('cafe\u0301-au-lait'))).toBe(true)
  })

  it.each(['', 'x', 'scrypt$99$8$1$a$b', '$2b$10$abcdefghijklmnopqrstuv'])(
    '%j proves nothing',
    async (stored) => {
      expect(await createPasswords({ cost: cheap }).verify('', stored)).toBe(false)
    },
  )

  it('of too many people at once is not hashed: they are told to come back', async () => {
    const passwords = createPasswords({ cost: cheap })
    const all = await Promise.allSettled(Array.from({ length: 60 }, () => passwords.verify('x', null)))
    const refused = all.filter(({ status }) => status === 'rejected')
    expect(refused.length).toBe(60 - 18)
    expect(refused[0]).toMatchObject({ reason: { code: 'too_many_requests' } })
    expect(await passwords.verify('x', null)).toBe(false)
  })
})
