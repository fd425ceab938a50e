// An API key as the test server of the contract answers it.
import type { Key } from '@belfry/contract'

export const newKey = (id: string, name: string, more: Partial<Key>): Key => ({
  id,
  name,
  prefix: 'blf_abcd',
  scopes: ['read'],
  queues: null,
  createdAt: '2026-11-29T12:00:00.000Z',
  expiresAt: null,
  revokedAt: null,
  lastUsedAt: null,
  ...more,
})
