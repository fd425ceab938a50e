/**
 * Tokens of people's sessions (`bfs_<prefix>_<secret>`) and of invitations (`bfi_…`), in the form of API
 * keys: looked up by the prefix, proved by 32 random bytes of which only a hash is stored.
 */
import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import type { TokenMint } from '../ports/people.ts'

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()

export const sessionTokenPattern = /^bfs_([0-9a-z]{12})_([0-9A-Za-z_-]{43})$/
const inviteTokenPattern = /^bfi_([0-9a-z]{12})_([0-9A-Za-z_-]{43})$/

function tokenMint(kind: 'bfs' | 'bfi', pattern: RegExp): TokenMint {
  return {
    mint() {
      const prefix = Array.from({ length: 12 }, () => alphabet[randomInt(alphabet.length)]).join('')
      const secret = randomBytes(32).toString('base64url')
      return { token: `${kind}_${prefix}_${secret}`, prefix, secretHash: hashOf(secret) }
    },
    read(token) {
      const [, prefix, secret] = pattern.exec(token) ?? []
      if (prefix === undefined || secret === undefined) return undefined
      return { prefix, proves: (secretHash) => timingSafeEqual(hashOf(secret), secretHash) }
    },
  }
}

export const sessionMint: TokenMint = tokenMint('bfs', sessionTokenPattern)
export const inviteMint: TokenMint = tokenMint('bfi', inviteTokenPattern)
