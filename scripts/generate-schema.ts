// `npm run schema`: writes docs/reference/schema.sql alone, from a database that is migrated for it;
// generate-docs.ts writes it together with the other pages. A test compares the committed file.
process.argv.push('--only', 'schema.sql')
await import('./generate-docs.ts')
