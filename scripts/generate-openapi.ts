// `npm run openapi`: writes docs/reference/openapi.json alone; generate-docs.ts writes it together with the
// other pages. A test compares the committed file with what this makes.
process.argv.push('--only', 'openapi.json')
await import('./generate-docs.ts')
