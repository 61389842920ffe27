package main

// sender is a number that messages come from, and what they say.
type sender struct {
	name, number string
	messages     int
	texts        []string
}

var senders = []sender{
	{"dentist", "+442079460101", 23, []string{
		"Hi {name}, your check-up with Dr Okafor is on {day} at {time}. Reply C to confirm or call 020 7946 0101 to change it.",
		"{name}, we missed you today. Please call us to book a new appointment.",
		"Reminder from Northgate Dental: {day} at {time}, Room {n}. Please arrive ten minutes early & bring a list of any medicines you take. If you cannot come, tell us a day ahead so that somebody else can have the place.",
	}},
	{"parcel", "+447700900101", 23, []string{
		"Your parcel {order} arrives {day} between {time} and 18:00 📦",
		"Sorry, nobody was in. Parcel {order} is with your neighbour at No. {n}.",
		"Parcel {order} is waiting at the corner shop. Your pick-up code: {code}",
	}},
	{"bank", "+442079460102", 22, []string{
		"Your code is {code}. It is valid for 5 minutes. We will never ask you for it.",
		"Card payment of £{amount} at {shop}. Not you? Call the number on your card.",
		"Your statement is ready [{order}]. Balance: £{amount}",
	}},
	{"cafe", "+33199000101", 22, []string{
		"Bonjour {name}, votre table pour {n} personnes est réservée {jour} à {time}. À bientôt, le Café Zéphyr ☕",
		"Le Café Zéphyr : votre commande {order} est prête. Merci et à tout de suite !",
		"{name}, merci de votre visite ! Dites-nous ce que vous en avez pensé : répondez par un chiffre de 1 à 5.",
	}},
	{"garage", "+493023125101", 22, []string{
		"Guten Tag {name}, Ihr Wagen ist fertig und kann ab {time} abgeholt werden. Rechnungsbetrag: {amount} €. Viele Grüße, Ihre Werkstatt Schäfer",
		"Ihr Termin zum Reifenwechsel: {tag}, {time} Uhr. Bitte den Fahrzeugschein mitbringen.",
	}},
	{"school", "+442079460103", 22, []string{
		"Dear parents, the school bus on line {n} is about 20 minutes late this morning.",
		"Class {n}B: swimming on {day} is moved to the sports hall. Please pack trainers instead of swimwear, a bottle of water and something to eat. Pick-up stays at {time} at the main gate; the late club is open as usual.",
	}},
	{"vet", "+442079460104", 22, []string{
		"{pet} is awake and doing well 🐾 You can come and collect from {time}.",
		"Time for {pet}'s booster! Book online or call us on 020 7946 0104.",
	}},
	{"library", "+493023125102", 21, []string{
		"Das vorbestellte Buch {order} liegt bis {tag} für Sie bereit. Ihre Stadtbücherei",
		"{n} Medien sind in drei Tagen fällig. Verlängern: online oder unter 030 23125102. Öffnungszeiten in dieser Woche: Dienstag bis Freitag von 10 bis 19 Uhr, am Samstag von 10 bis 14 Uhr; am Montag bleibt die Bücherei geschlossen.",
	}},
	{"bakery", "+33199000102", 21, []string{
		"Pain au levain frais dès {time} 🥖 Réservez le vôtre en répondant OUI.",
		"Votre gâteau ({order}) vous attend {jour} à partir de {time}. Il reste {amount} € à régler sur place. Pour une surprise réussie 🎂 dites-nous avant la veille à midi s'il faut écrire un prénom dessus ou ajouter des bougies.",
	}},
	{"gym", "+12125550101", 21, []string{
		"{name}, you're on the list for spin class {day} {time} 🚴 Can't make it? Cancel 2 h ahead.",
		"A spot opened up! Yoga, {day} at {time}. First to reply YES gets it.",
	}},
	{"power", "+14155550102", 21, []string{
		"Planned outage in your street on {day} from {time} for about {n} hours. Ref {order}",
		"Thank you. We received your payment of ${amount} (account ~{code}).",
	}},
	{"studio", "+493023125103", 20, []string{
		"Γειά σου {name}! Η πρόβα είναι στις {time} 🎶",
		"{name}-san, 次の稽古は{time}に始まります。場所は第{n}スタジオです。",
		"Próba chóru: {time}, sala {n}. Weź nuty — śpiewamy „Łąkę”! Jeśli nie możesz przyjść, odpisz NIE do południa.",
	}},
	{"clinic", "+16175550103", 20, []string{
		"{name}, your results are ready. Log in with {code} or call 617-555-0103.",
		"Blood drive on {day}: your slot is {time}. Eat well and drink plenty of water before you come; wear sleeves that roll up; bring photo ID. It takes about an hour, and there will be juice & cookies. You may save up to three lives.",
	}},
	{"ferry", "+442079460105", 20, []string{
		"Sailing {order}: boarding opens at {time}, gate {n}. Bon voyage! ⛴️",
		"Rough seas: sailing {order} leaves {n} hours late. We're sorry. Free tea on deck.",
	}},
}

var words = map[string][]string{
	"name": {"Amélie", "Björn", "Chloë", "Dana", "Émile", "Fatima", "Grace", "Håkon", "Inês", "Jürgen", "Kofi", "Łucja", "Mei", "Noor", "Özlem", "Priya", "Renée", "Søren", "Tom", "Zoë"},
	"day":  {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"},
	"tag":  {"Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag"},
	"jour": {"lundi", "mardi", "mercredi", "jeudi", "vendredi"},
	"pet":  {"Biscuit", "Käthe", "Mochi", "Nala", "Oscar", "Pünktchen", "Ziggy"},
	"shop": {"Green & Sons", "THE BOOK NOOK", "Café Zéphyr", "Hill Street Market", "RAIL TICKETS"},
}
