// A vault on a ring of random master keys, as a server's. `createTestVault()` has one key; give numbers for
// more.
import { randomBytes } from 'node:crypto'
import type { KeyRing } from '../../packages/server/src/domain/key-ring.ts'
import type { Vault } from '../../packages/server/src/ports/secrets.ts'
import { createRingWrapper } from '../../packages/server/src/security/secrets/key-ring.ts'
import { createVault } from '../../packages/server/src/security/secrets/vault.ts'
import { realClock } from './real-clock.ts'

export const randomRing = (...numbers: readonly number[]): KeyRing =>
  new Map(numbers.map((number) => [number, randomBytes(32)]))

export const vaultOn = (ring: KeyRing): Vault =>
  createVault({ wrappers: [createRingWrapper(ring)], clock: realClock })

export const createTestVault = (): Vault => vaultOn(randomRing(1))
