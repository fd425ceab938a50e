/**
 * Passwords of people, kept as scrypt hashes with their parameters: `scrypt$17$8$1$<salt>$<hash>`. A hash
 * takes 128 MiB and about a second, so that few are made at a time and a few more wait; beyond that the
 * caller is told to come back. For somebody unknown the same work is done, so that the time says nothing.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { BelfryError } from '@belfry/contract'
import type { Passwords } from '../ports/people.ts'

/** N is 2 to the power of `logN`. */
interface Cost {
  readonly logN: number
  readonly r: number
  readonly p: number
}
const strong: Cost = { logN: 17, r: 8, p: 1 }
const hashBytes = 32
const saltBytes = 16
const atATime = 2
const maxWaiting = 16

const form = /^scrypt\$(\d{1,2})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9_-]{22})\$([A-Za-z0-9_-]{43})$/

function derive(password: string, salt: Uint8Array, { logN, r, p }: Cost): Promise<Buffer> {
  const cost = 2 ** logN
  // what it takes, and a little for the rest
  const maxmem = 128 * cost * r + 1024 * 1024
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, hashBytes, { N: cost, r, p, maxmem }, (error, hash) => {
      if (error === null) resolve(hash)
      else reject(error)
    })
  })
}

/** `cost` is for tests; the default is that of production. */
export function createPasswords({ cost = strong }: { readonly cost?: Cost } = {}): Passwords {
  let working = 0
  const waiting: (() => void)[] = []
  const ofNobody = { cost, salt: randomBytes(saltBytes), hash: randomBytes(hashBytes) }

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (working >= atATime) {
      if (waiting.length >= maxWaiting) {
        const message = 'Too many people sign in at this moment; try again in a few seconds.'
        throw new BelfryError('too_many_requests', message)
      }
      // whoever ends hands its place on, so the count stays
      await new Promise<void>((resolve) => void waiting.push(resolve))
    } else {
      working += 1
    }
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) working -= 1
      else next()
    }
  }

  return {
    hash: (password) =>
      inTurn(async () => {
        const salt = randomBytes(saltBytes)
        const hash = await derive(password, salt, cost)
        const parts = [
          'scrypt',
          cost.logN,
          cost.r,
          cost.p,
          salt.toString('base64url'),
          hash.toString('base64url'),
        ]
        return parts.join('$')
      }),
    verify: (password, stored) =>
      inTurn(async () => {
        const known = stored === null ? undefined : parsed(stored)
        const { cost: ofHash, salt, hash } = known ?? ofNobody
        const isSame = timingSafeEqual(await derive(password, salt, ofHash), hash)
        return isSame && known !== undefined
      }),
  }
}

function parsed(stored: string): { cost: Cost; salt: Buffer; hash: Buffer } | undefined {
  const [, logN, r, p, salt = '', hash = ''] = form.exec(stored) ?? []
  if (logN === undefined) return undefined
  const cost = { logN: Number(logN), r: Number(r), p: Number(p) }
  return { cost, salt: Buffer.from(salt, 'base64url'), hash: Buffer.from(hash, 'base64url') }
}
