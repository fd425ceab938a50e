// People, their sessions, and quotas, as the test server of the contract answers them: there is one of each,
// what is made or changed is answered and not kept.
import { type Member, type PersonSession, type QuotaList, quotaTable } from '@belfry/contract'
import type { Answers } from './contract-tables.ts'

const at = '2026-11-29T10:00:00.000Z'
const ada: Member = {
  id: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2c00',
  email: 'ada@example.com',
  name: 'Ada',
  role: 'operator',
  roleFrom: 'members',
  state: 'active',
  signsInWith: 'password',
  inviteEndsAt: null,
  createdAt: at,
  lastSignInAt: at,
}
const invited = { ...ada, state: 'invited', inviteEndsAt: at, inviteToken: null } as const
const session: PersonSession = {
  id: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2d00',
  memberId: ada.id,
  method: 'password',
  address: '127.0.0.1',
  userAgent: 'test',
  current: true,
  createdAt: at,
  lastSeenAt: at,
  endsAt: at,
  endedAt: null,
}

const quotas = (tenant: string): QuotaList => {
  const { kind, unit, words: description } = quotaTable.jobs
  const row = {
    quota: 'jobs',
    kind,
    unit,
    description,
    limit: 5,
    source: 'tenant',
    used: 1,
    setAt: at,
  } as const
  return { tenant, items: [row] }
}

export const peopleAnswers: Answers = {
  memberCreate: ({ fields }) => ({ ...invited, ...fields }),
  memberList: () => ({ items: [ada], nextCursor: null }),
  memberGet: () => ada,
  memberUpdate: ({ fields }) => ({ ...ada, ...fields }),
  memberInvite: () => invited,
  memberDelete: () => undefined,
  personSessionList: () => ({ items: [session], nextCursor: null }),
  signOut: () => session,
  personSessionRevoke: () => session,
  tenantQuotaList: ({ id }) => quotas(id),
  tenantQuotaUpdate: ({ id }) => quotas(id),
}
