// Service accounts as the test server of the contract answers them: there is one, what is made or changed is
// answered and not kept.
import type { ServiceAccount } from '@belfry/contract'
import type { Answers } from './contract-tables.ts'

const at = '2026-11-29T10:00:00.000Z'
const robot: ServiceAccount = {
  id: '019ad0c1-7f3e-7c63-9a52-6e4d8c1b2b00',
  name: 'robot',
  description: '',
  role: 'viewer',
  queues: null,
  version: 1,
  createdAt: at,
  updatedAt: at,
  disabledAt: null,
}

export const accountAnswers: Answers = {
  serviceAccountCreate: ({ fields }) => ({ ...robot, ...fields }),
  serviceAccountList: ({ query }) => ({
    items: query['name'] === undefined || query['name'] === robot.name ? [robot] : [],
    nextCursor: null,
  }),
  serviceAccountGet: () => robot,
  serviceAccountUpdate: ({ fields: { disabled, ...fields } }) => ({
    ...robot,
    ...fields,
    disabledAt: disabled === true ? at : null,
  }),
}
