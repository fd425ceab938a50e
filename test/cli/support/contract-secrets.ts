// Secrets as the test server of the contract answers them: one is there, and what is done to it is answered
// and not kept.
import type { Secret } from '@belfry/contract'
import type { Answers } from './contract-tables.ts'

const madeAt = '2026-11-29T12:00:00.000Z'
const id = '019ad0c1-0000-7000-8000-00000000cccc'

const secretOf = (more: Partial<Secret> = {}): Secret => ({
  id,
  name: 'api-token',
  description: '',
  version: 2,
  versions: [2, 1].map((version) => ({ version, createdBy: 'key web', createdAt: madeAt })),
  grants: [
    {
      grantee: { kind: 'job', id, name: 'report' },
      targets: ['https://a.example'],
      createdBy: 'key web',
      createdAt: madeAt,
    },
  ],
  createdAt: madeAt,
  updatedAt: madeAt,
  ...more,
})

function listed({ versions: _versions, grants, ...secret }: Secret) {
  return { ...secret, grants: grants.length }
}

export const secretAnswers: Answers = {
  secretCreate: ({ fields }) => secretOf({ name: String(fields['name']), version: 1, grants: [] }),
  secretList: ({ query }) => {
    const secret = secretOf()
    const isMeant = query['name'] === undefined || query['name'] === secret.name
    return { items: isMeant ? [listed(secret)] : [], nextCursor: null }
  },
  secretGet: () => secretOf(),
  secretUpdate: () => secretOf(),
  secretRotate: () => secretOf({ version: 3 }),
  secretRestore: () => secretOf({ version: 1 }),
  secretDelete: () => undefined,
  secretGrant: () => secretOf(),
  secretRevoke: () => secretOf({ grants: [] }),
  secretRewrap: () => ({
    current: 'ring:2',
    rewrapped: 3,
    failed: [],
    next: null,
    left: 0,
    wrappedBy: [{ key: 'ring:2', tenants: 3 }],
  }),
}
